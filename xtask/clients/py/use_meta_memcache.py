"""meta-memcache: the meta protocol, with leases, stale values and early refresh."""

import os
import threading
import time

from meta_memcache import (
    CacheClient, Key, LeasePolicy, MetaCommand, RecachePolicy, RequestFlags, ServerAddress, SetMode, StalePolicy,
    connection_pool_factory_builder,
)

from checking import HOST, PORT, end, refused, same

client = CacheClient.cache_client_from_servers(
    servers=[ServerAddress(host=HOST, port=PORT)],
    connection_pool_factory_fn=connection_pool_factory_builder(recv_timeout=10),
)

same("get, absent", client.get("absent"), None)
same("set", client.set("key", "value", ttl=100), True)
same("get", client.get("key"), "value")
same("get, type", client.get_typed("key", str), "value")
for name, value in {"int": 5, "bytes": bytes(range(256)), "list": [1, "ä", None], "none": None, "empty": b""}.items():
    same(f"set, {name}", client.set(f"of_{name}", value, ttl=100), True)
    same(f"get, {name}", client.get(f"of_{name}"), value)
same("set, no reply", client.set("quiet", "q", ttl=100, no_reply=True), True)
same("get after no reply", client.get("quiet"), "q")
same("add, present", client.set("key", "x", ttl=100, set_mode=SetMode.ADD), False)
same("add, absent", client.set("added", b"2", ttl=100, set_mode=SetMode.ADD), True)
same("replace, absent", client.set("absent", b"2", ttl=100, set_mode=SetMode.REPLACE), False)
same("append", client.set("added", b"3", ttl=100, set_mode=SetMode.APPEND), True)
same("prepend", client.set("added", b"1", ttl=100, set_mode=SetMode.PREPEND), True)
same("get, appended", client.get("added"), b"123")
same("refill, present", client.refill("key", "x", ttl=100), False)
same("delete", client.delete("added"), True)
same("delete, absent", client.delete("added"), False)
same("invalidate, absent", client.invalidate("added"), True)

for name, key in {"unicode": Key("🍺"), "long": Key("k" * 400), "bytes with spaces": Key("a b\r\n\0c")}.items():
    same(f"set, key {name}", client.set(key, name, ttl=100), True)
    same(f"get, key {name}", client.get(key), name)
    same(f"delete, key {name}", client.delete(key), True)
big = b"0123456789" * 100_000
same("set, a million bytes", client.set("big", big, ttl=100), True)
same("get, a million bytes", client.get("big"), big)
refused("set, two MiB", Exception, client.set, "big", os.urandom(2 << 20), ttl=100)
same("get after that", client.get("key"), "value")

value, number = client.get_cas("key")
same("get_cas", value, "value")
same("set with cas", client.set("key", "swapped", ttl=100, cas_token=number), True)
same("set with an old number", client.set("key", "late", ttl=100, cas_token=number), False)
number = client.set_cas("key", "again", ttl=100)
same("set_cas answers the number", client.get_cas("key"), ("again", number))
same("delete with an old number", client.delete("key", cas_token=number + 1), False)

client.set("n", 10, ttl=100)
same("delta", client.delta("n", 5), True)
same("delta_and_get", client.delta_and_get("n", -6), 9)
same("delta, absent", client.delta("absent", 1), False)
same("delta_initialize", client.delta_initialize("counter", 1, initial_value=40, initial_ttl=100), True)
same("delta_initialize_and_get", client.delta_initialize_and_get("counter", 2, initial_value=0, initial_ttl=100), 42)

for at in range(200):
    client.set(f"many{at}", at, ttl=100)
same("multi_get", client.multi_get([Key(f"many{at}") for at in range(200)]), {Key(f"many{at}"): at for at in range(200)})
same("multi_get, absent", client.multi_get(["many1", "absent"]), {Key("many1"): 1, Key("absent"): None})

seen = client.meta_get(Key("key"), flags=RequestFlags(return_ttl=True, return_size=True, return_fetched=True, return_client_flag=True, return_key=True, opaque=b"7"))
same("meta_get: lifetime", 95 <= seen.flags.ttl <= 100, True)
same("meta_get: size", seen.flags.size if hasattr(seen.flags, "size") else seen.size, 5)
same("meta_get: fetched", seen.flags.fetched, True)
same("meta_get: opaque", seen.flags.opaque, b"7")
client.set("short", "s", ttl=1)
client.set("kept", "k", ttl=1)
client.set("read", "r", ttl=1)
same("touch", client.touch("kept", ttl=60), True)
same("touch, absent", client.touch("absent", ttl=60), False)
same("get with touch", client.get("read", touch_ttl=60), "r")
time.sleep(2.1)
same("get, expired", client.get("short"), None)
same("get, touched", client.get("kept"), "k")
same("get, read and touched", client.get("read"), "r")

# One caller wins the lease; a second waits for its value, asking again and again.
policy = LeasePolicy(ttl=10, miss_retries=20, miss_retry_wait=0.05)
same("get_or_lease wins", client.get_or_lease("leased", lease_policy=policy), None)
filler = threading.Timer(0.3, lambda: client.set("leased", "brought", ttl=100))
filler.start()
same("get_or_lease waits", client.get_or_lease("leased", lease_policy=policy), "brought")
filler.join()
client.set("stale", "old", ttl=100)
same("invalidate, stale", client.invalidate("stale", stale_policy=StalePolicy(mark_stale_on_deletion_ttl=30)), True)
same("get, stale: the first wins", client.get("stale"), None)
same("get, stale: others read on", client.get("stale"), "old")
client.set("soon", "old", ttl=5)
early = RecachePolicy(ttl=30)
same("get, early: the first wins", client.get("soon", recache_policy=early), None)
same("get, early: others read on", client.get("soon", recache_policy=early), "old")
same("lease with cas", client.get_or_lease_cas("absent2", lease_policy=policy)[0], None)
end()
