"""Django's cache, by the backend that the fourth argument names."""

import sys
import time

import django
from django.conf import settings

from checking import HOST, PORT, end, refused, same

BACKEND = sys.argv[4]
place = f"redis://{HOST}:{PORT}" if BACKEND.startswith("redis") else f"{HOST}:{PORT}"
settings.configure(
    CACHES={
        "default": {"BACKEND": f"django.core.cache.backends.{BACKEND}", "LOCATION": place},
        "other": {"BACKEND": f"django.core.cache.backends.{BACKEND}", "LOCATION": place, "KEY_PREFIX": "other", "VERSION": 7},
    },
    SESSION_ENGINE="django.contrib.sessions.backends.cache",
)
django.setup()

from django.contrib.sessions.backends.cache import SessionStore
from django.core.cache import cache, caches
from django.core.cache.utils import make_template_fragment_key

cache.clear()
same("get, absent", cache.get("absent"), None)
same("get, absent, with a default", cache.get("absent", "none"), "none")
same("set", cache.set("key", "value"), None)
same("get", cache.get("key"), "value")
for name, value in {"int": 5, "dict": {"a": [1, None, "ä"]}, "bytes": bytes(range(256)), "none": None, "empty": ""}.items():
    cache.set(name, value)
    same(f"get, {name}", cache.get(name, "absent"), value)
same("add, present", cache.add("key", "x"), False)
same("add, absent", cache.add("added", "x"), True)
same("get_or_set, absent", cache.get_or_set("computed", lambda: 41 + 1), 42)
same("get_or_set, present", cache.get_or_set("computed", 0), 42)
same("has_key", (cache.has_key("key"), "absent" in cache), (True, False))
same("delete", (cache.delete("added"), cache.delete("added")), (True, False))
same("set_many", cache.set_many({f"many{at}": at for at in range(100)}), [])
same("get_many", cache.get_many([f"many{at}" for at in range(101)]), {f"many{at}": at for at in range(100)})
same("delete_many", cache.delete_many(["many1", "many2"]), None)
same("get_many, deleted", cache.get_many(["many1", "many3"]), {"many3": 3})
cache.set("n", 10)
same("incr", (cache.incr("n"), cache.incr("n", 9), cache.decr("n", 5)), (11, 20, 15))
refused("incr, absent", ValueError, cache.incr, "absent")

cache.set("versioned", 1, version=1)
cache.set("versioned", 2, version=2)
same("versions", (cache.get("versioned"), cache.get("versioned", version=2)), (1, 2))
same("incr_version", cache.incr_version("key"), 2)
same("get after it", (cache.get("key"), cache.get("key", version=2)), (None, "value"))
same("decr_version", cache.decr_version("key", version=2), 1)
refused("incr_version, absent", ValueError, cache.incr_version, "absent")
caches["other"].set("key", "other")
same("a prefix", (cache.get("key"), caches["other"].get("key")), ("value", "other"))

big = "0123456789" * 90_000
cache.set("big", big)
same("get, 900,000 bytes", cache.get("big"), big)
cache.set("schlüssel:鍵", "u")
same("a key in UTF-8", cache.get("schlüssel:鍵"), "u")

cache.set("short", "s", timeout=1)
cache.set("kept", "k", timeout=1)
cache.set("forever", "f", timeout=None)
cache.set("month", "m", timeout=60 * 60 * 24 * 31)
cache.set("at_once", "o", timeout=0)
same("timeout 0", cache.get("at_once"), None)
same("add with timeout 0", (cache.add("nought", 1, timeout=0), cache.get("nought")), (True, None))
same("touch", (cache.touch("kept", 60), cache.touch("absent")), (True, False))
time.sleep(2.1)
same("get, expired", cache.get("short"), None)
same("get, touched", cache.get("kept"), "k")
same("get, for ever and a month", (cache.get("forever"), cache.get("month")), ("f", "m"))
same("touch with 0", (cache.touch("kept", 0), cache.get("kept")), (True, None))

session = SessionStore()
session["user"] = 5
session.create()
same("a session", SessionStore(session.session_key)["user"], 5)
session.flush()
same("a session, flushed", SessionStore().exists(session.session_key or "absent"), False)
fragment = make_template_fragment_key("sidebar", ["user", 1])
cache.set(fragment, "<p>")
same("a fragment of a template", cache.get(fragment), "<p>")
cache.clear()
same("clear", cache.get_many(["key", "many5", "forever"]), {})
end()
