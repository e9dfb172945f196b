"""pylibmc: libmemcached's text protocol, values of Python's types, pools."""

import time

import pylibmc

from checking import HOST, PORT, end, refused, same

client = pylibmc.Client([f"{HOST}:{PORT}"], behaviors={"cas": True, "tcp_nodelay": True, "verify_keys": True})

same("flush_all", client.flush_all(), True)
same("get, absent", client.get("absent"), None)
same("get, absent, with a default", client.get("absent", "none"), "none")
same("set", client.set("key", "value"), True)
same("get", client.get("key"), "value")
same("key in client", "key" in client, True)
same("absent in client", "absent" in client, False)
for name, value in {"int": 5, "big int": 1 << 80, "bytes": bytes(range(256)), "list": [1, "ä", None], "float": 0.5}.items():
    key = "of_" + name.replace(" ", "_")
    same(f"set, {name}", client.set(key, value), True)
    same(f"get, {name}", client.get(key), value)
same("set, empty", client.set("empty", b""), True)
same("get, empty", client.get("empty"), b"")
same("add, present", client.add("key", "x"), False)
same("add, absent", client.add("added", b"2"), True)
same("replace, present", client.replace("added", b"2"), True)
same("replace, absent", client.replace("absent", b"2"), False)
same("append", client.append("added", b"3"), True)
same("prepend", client.prepend("added", b"1"), True)
same("get, appended", client.get("added"), b"123")
same("append, absent", client.append("absent", b"3"), False)
same("delete", client.delete("added"), True)
same("delete, absent", client.delete("added"), False)

value, number = client.gets("key")
same("gets", value, "value")
same("cas", client.cas("key", "swapped", number), True)
same("cas, old number", client.cas("key", "late", number), False)
same("get after cas", client.get("key"), "swapped")
refused("cas, absent", pylibmc.NotFound, client.cas, "absent", "x", number)
same("gets, absent", client.gets("absent"), (None, None))

client.set("number", 10)
same("incr", client.incr("number", 5), 15)
same("decr", client.decr("number", 6), 9)
same("decr below zero", client.decr("number", 100), 0)
refused("incr, absent", pylibmc.NotFound, client.incr, "absent")
client.set("number2", 1)
same("incr_multi", client.incr_multi(["number", "number2"], delta=2), None)
same("get, incremented", client.get_multi(["number", "number2"]), {"number": 2, "number2": 3})

same("set_multi", client.set_multi({f"many{at}": at for at in range(200)}), [])
same("get_multi", client.get_multi([f"many{at}" for at in range(201)]), {f"many{at}": at for at in range(200)})
same("set_multi, prefix", client.set_multi({"a": 1, "b": 2}, key_prefix="p:"), [])
same("get_multi, prefix", client.get_multi(["a", "b", "c"], key_prefix="p:"), {"a": 1, "b": 2})
same("add_multi", client.add_multi({"a": 3, "c": 4}, key_prefix="p:"), ["a"])
same("delete_multi", client.delete_multi(["a", "b", "c"], key_prefix="p:"), True)
same("get_multi, deleted", client.get_multi(["a", "b", "c"], key_prefix="p:"), {})

big = b"0123456789" * 100_000
same("set, a million bytes", client.set("big", big), True)
same("get, a million bytes", client.get("big"), big)
refused("set, two MiB", pylibmc.Error, client.set, "big", b"x" * (2 << 20))
same("get after that", client.get("key"), "swapped")
same("set, compressed", client.set("zipped", "z" * 100_000, min_compress_len=1000), True)
same("get, compressed", client.get("zipped"), "z" * 100_000)
same("a key of 250 bytes", client.set("k" * 250, 1), True)
same("get of it", client.get("k" * 250), 1)
same("a key with a space", client.set("a key", 1), False)

client.set("short", "s", time=1)
client.set("kept", "k", time=1)
same("touch", client.touch("kept", 60), True)
same("touch, absent", client.touch("absent", 60), False)
time.sleep(2.1)
same("get, expired", client.get("short"), None)
same("get, touched", client.get("kept"), "k")

unordered = pylibmc.Client([f"{HOST}:{PORT}"], behaviors={"no_block": True, "tcp_nodelay": True, "ketama": True})
for at in range(100):
    unordered.set(f"nb{at}", at)
same("no_block and ketama", unordered.get_multi([f"nb{at}" for at in range(100)]), {f"nb{at}": at for at in range(100)})
noreply = pylibmc.Client([f"{HOST}:{PORT}"], behaviors={"_noreply": True})
noreply.set("quiet", "q")
same("noreply", noreply.get("quiet"), "q")

pool = pylibmc.ThreadMappedPool(client)
with pool.reserve() as mapped:
    same("a pool", mapped.get("key"), "swapped")
[(server, stats)] = client.get_stats()
same("get_stats", int(stats["curr_items"]) > 100, True)
same("get_stats settings", len(client.get_stats("settings")), 1)
same("flush_all", client.flush_all(), True)
same("get, flushed", client.get("key"), None)
end()
