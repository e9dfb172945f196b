"""pymemcache: a connection, a pool, several servers, values of any type."""

import time

from pymemcache import serde
from pymemcache.client.base import Client, PooledClient
from pymemcache.client.hash import HashClient
from pymemcache.exceptions import MemcacheClientError, MemcacheError, MemcacheServerError

from checking import HOST, PORT, end, refused, same

client = Client((HOST, PORT), timeout=10, default_noreply=False)

same("flush_all", client.flush_all(), True)
same("get, absent", client.get("absent"), None)
same("get, absent, with a default", client.get("absent", 7), 7)
same("set", client.set("key", "value"), True)
same("get", client.get("key"), b"value")
same("set with noreply", client.set("key", b"other", noreply=True), True)
same("get after noreply", client.get("key"), b"other")
same("set, empty", client.set("empty", b""), True)
same("get, empty", client.get("empty"), b"")
same("add, present", client.add("key", b"x"), False)
same("add, absent", client.add("added", b"1"), True)
same("replace, present", client.replace("added", b"2"), True)
same("replace, absent", client.replace("absent", b"2"), False)
same("append", client.append("added", b"3"), True)
same("prepend", client.prepend("added", b"1"), True)
same("get, appended", client.get("added"), b"123")
same("append, absent", client.append("absent", b"3"), False)
same("prepend, absent", client.prepend("absent", b"3"), False)
same("delete", client.delete("added"), True)
same("delete, absent", client.delete("added"), False)

same("set with flags", client.set("flags", b"f", flags=4294967295), True)
same("get with flags", client.raw_command("get flags", end_tokens="END\r\n"), b"VALUE flags 4294967295 1\r\nf\r\n")
binary = bytes(range(256)) * 4
client.set("bytes", binary)
same("a value of all bytes", client.get("bytes"), binary)
big = b"0123456789" * 100_000
same("set, a million bytes", client.set("big", big), True)
same("get, a million bytes", client.get("big"), big)
refused("set, two MiB", MemcacheServerError, client.set, "big", b"x" * (2 << 20))
same("get after that", client.get("key"), b"other")

value, number = client.gets("key")
same("gets", value, b"other")
same("cas", client.cas("key", b"swapped", number), True)
same("cas, old number", client.cas("key", b"late", number), False)
same("cas, absent", client.cas("absent", b"x", number), None)
same("get after cas", client.get("key"), b"swapped")

client.set("number", "10")
same("incr", client.incr("number", 5), 15)
same("decr", client.decr("number", 6), 9)
same("decr below zero", client.decr("number", 100), 0)
same("incr, absent", client.incr("absent", 1), None)
client.set("number", str(2**64 - 1))
same("incr over 64 bits", client.incr("number", 1), 0)
refused("incr of a word", MemcacheClientError, client.incr, "key", 1)

same("set_many", client.set_many({f"many{at}": str(at) for at in range(200)}), [])
same("get_many", client.get_many([f"many{at}" for at in range(201)]), {f"many{at}": str(at).encode() for at in range(200)})
same("gets_many", sorted(client.gets_many(["many1", "many2"])), ["many1", "many2"])
same("delete_many", client.delete_many([f"many{at}" for at in range(100)]), True)
same("get_many, deleted", client.get_many(["many99", "many100"]), {"many100": b"100"})

refused("a key with a space", MemcacheError, client.set, "a key", b"x")
refused("a key of 251 bytes", MemcacheError, client.set, "k" * 251, b"x")
same("a key of 250 bytes", client.set("k" * 250, b"x"), True)
same("get of it", client.get("k" * 250), b"x")
unicode = Client((HOST, PORT), allow_unicode_keys=True, default_noreply=False)
same("a key in UTF-8", unicode.set("schlüssel-鍵", b"u"), True)
same("get of it", unicode.get("schlüssel-鍵"), b"u")
prefixed = Client((HOST, PORT), key_prefix=b"app:", default_noreply=False)
prefixed.set("key", b"mine")
same("a prefix", client.get("app:key"), b"mine")

client.set("short", b"s", expire=1)
client.set("kept", b"k", expire=1)
client.set("read", b"r", expire=1)
client.set("over", b"o", expire=-1)
same("get, lifetime over", client.get("over"), None)
same("touch", client.touch("kept", 60), True)
same("touch, absent", client.touch("absent", 60), False)
same("gat", client.raw_command("gat 60 read", end_tokens="END\r\n"), b"VALUE read 0 1\r\nr\r\n")
client.set("dated", b"d", expire=int(time.time()) + 60)
same("get, a date as lifetime", client.get("dated"), b"d")
time.sleep(2.1)
same("get, expired", client.get("short"), None)
same("get, touched", client.get("kept"), b"k")
same("get, got and touched", client.get("read"), b"r")

pickled = PooledClient((HOST, PORT), serde=serde.pickle_serde, max_pool_size=4, default_noreply=False)
thing = {"list": [1, 2.5, None], "text": "ä", "bytes": b"\0"}
same("set of a dictionary", pickled.set("thing", thing), True)
same("get of a dictionary", pickled.get("thing"), thing)
pickled.set("int", 5)
same("get of an int", pickled.get("int"), 5)
compressed = Client((HOST, PORT), serde=serde.compressed_serde, default_noreply=False)
compressed.set("compressed", "z" * 10_000)
same("get, compressed", compressed.get("compressed"), "z" * 10_000)

hashed = HashClient([(HOST, PORT), ("localhost", PORT)], default_noreply=False)
same("set_many, two servers", hashed.set_many({f"h{at}": b"h" for at in range(50)}), [])
same("get_many, two servers", len(hashed.get_many([f"h{at}" for at in range(50)])), 50)

stats = client.stats()
same("stats", int(stats[b"curr_items"]) > 100, True)
same("stats settings", b"maxbytes" in client.stats("settings"), True)
same("version", client.version()[:2], b"1.")
same("mn", client.raw_command("mn"), b"MN")
same("mg", client.raw_command("mg key s v t", end_tokens="\r\n"), b"VA 7 s7 t-1")
client.close()
same("verbosity", client.raw_command("verbosity 1"), b"OK")
same("flush_all, later", client.flush_all(delay=1), True)
time.sleep(2.1)
same("get, flushed", client.get("many150"), None)
same("quit", client.quit(), None)
end()
