"""redis-py: strings, expiry, transactions, pipelines, scans, users, in RESP2 and RESP3; its client-side cache, its tasks."""

import asyncio
import threading
import time

import redis
import redis.asyncio
from redis.cache import CacheConfig

from checking import HOST, PORT, SECURED_PORT, end, refused, same, skipped, soon


def strings(client):
    same("flushall", client.flushall(), True)
    same("ping", client.ping(), True)
    same("get, absent", client.get("absent"), None)
    same("set", client.set("key", "value"), True)
    same("get", client.get("key"), b"value")
    same("set nx, present", client.set("key", "x", nx=True), None)
    same("set xx, absent", client.set("absent", "x", xx=True), None)
    same("set get", client.set("key", "other", get=True), b"value")
    same("getset", client.getset("key", "third"), b"other")
    same("setnx", client.setnx("key", "x"), False)
    same("append", client.append("key", "!"), 6)
    same("strlen", client.strlen("key"), 6)
    same("getrange", client.getrange("key", 1, -2), b"hird")
    same("setrange", client.setrange("key", 5, "??"), 7)
    same("get after that", client.get("key"), b"third??")
    same("getdel", client.getdel("key"), b"third??")
    same("exists", client.exists("key", "absent"), 0)
    binary = bytes(range(256))
    same("a key and value of all bytes", (client.set(binary[:250], binary), client.get(binary[:250])), (True, binary))
    big = b"0123456789" * 100_000
    same("set, a million bytes", client.set("big", big), True)
    same("get, a million bytes", client.get("big"), big)
    same("mset", client.mset({f"many{at}": at for at in range(100)}), True)
    same("mget", client.mget([f"many{at}" for at in range(101)]), [str(at).encode() for at in range(100)] + [None])
    same("msetnx", client.msetnx({"many1": 1, "new": 1}), False)
    same("delete", client.delete("many0", "many1", "absent"), 2)
    same("unlink", client.unlink("many2"), 1)
    same("incr", [client.incr("n"), client.incrby("n", 9), client.decr("n"), client.decrby("n", 4)], [1, 10, 9, 5])
    same("incrbyfloat", client.incrbyfloat("n", 0.5), 5.5)
    refused("incr of a word", redis.ResponseError, client.incr, "big")
    same("setbit", [client.setbit("bits", 7, 1), client.getbit("bits", 7), client.bitcount("bits")], [0, 1, 1])
    same("lcs", (client.set("a", "ohmytext"), client.set("b", "mynewtext"), client.lcs("a", "b")), (True, True, b"mytext"))
    same("rename", client.rename("a", "c"), True)
    same("copy", client.copy("c", "d"), True)
    same("type", client.type("d"), b"string")
    same("dbsize", client.dbsize(), len(client.keys("*")))
    same("touch", client.touch("c", "d", "absent"), 2)


def expiry(client):
    same("set ex", client.set("lives", "v", ex=100), True)
    same("ttl", 99 <= client.ttl("lives") <= 100, True)
    same("pttl", 99_000 < client.pttl("lives") <= 100_000, True)
    same("persist", client.persist("lives"), True)
    same("ttl, none", client.ttl("lives"), -1)
    same("ttl, absent", client.ttl("absent"), -2)
    same("expire", client.expire("lives", 50), True)
    same("expire gt", client.expire("lives", 10, gt=True), False)
    same("expireat", client.expireat("lives", int(time.time()) + 60), True)
    same("expiretime", client.expiretime("lives") - int(time.time()) in (59, 60), True)
    same("getex", client.getex("lives", ex=30), b"v")
    same("ttl after getex", 29 <= client.ttl("lives") <= 30, True)
    same("set keepttl", (client.set("lives", "w", keepttl=True), client.ttl("lives") > 0), (True, True))
    client.set("short", "s", px=60)
    time.sleep(0.1)
    same("get, expired", client.get("short"), None)
    refused("expire of nonsense", redis.ResponseError, client.set, "lives", "v", ex=-1)


def transactions(client):
    with client.pipeline() as pipe:
        same("multi, exec", pipe.set("t", 1).incr("t").get("t").get("absent").execute(), [True, 2, b"2", None])
    with client.pipeline(transaction=False) as pipe:
        for at in range(1000):
            pipe.set(f"p{at}", at)
        same("a pipeline of 1,000", pipe.execute(), [True] * 1000)
    with client.pipeline() as pipe:
        pipe.watch("t")
        client.set("t", "changed")
        pipe.multi()
        pipe.set("t", "mine")
        refused("watch, changed", redis.WatchError, pipe.execute)
    with client.pipeline(transaction=False) as pipe:
        pipe.incr("t").get("t")
        found = pipe.execute(raise_on_error=False)
        same("an error within a pipeline", (isinstance(found[0], redis.ResponseError), found[1]), (True, b"changed"))
    client.set("sum", 0)

    def add():
        mine = redis.Redis(HOST, PORT)
        for _ in range(50):
            mine.transaction(lambda pipe: (pipe.multi(), pipe.incr("sum")), "sum")

    threads = [threading.Thread(target=add) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    same("transactions of four threads", client.get("sum"), b"200")


def scans(client):
    same("scan_iter", sorted(client.scan_iter("p99?")), [b"p%d" % at for at in range(990, 1000)])
    same("scan_iter, all", len(set(client.scan_iter(count=100))), client.dbsize())
    same("keys", sorted(client.keys("p99[0-1]")), [b"p990", b"p991"])
    same("randomkey", client.randomkey() is not None, True)
    same("type of a scan", set(client.scan_iter("p1*", _type="string")) == set(client.keys("p1*")), True)


def connection(client, protocol):
    same("client id", client.client_id() > 0, True)
    same("client setname", client.client_setname("me"), True)
    same("client getname", client.client_getname() in ("me", b"me"), True)
    same("client info", client.client_info()["name"], "me")
    same("client list", any(line["name"] == "me" for line in client.client_list()), True)
    same("echo", client.echo("e"), b"e")
    same("info", client.info("server")["redis_version"].split(".")[0], "7")
    same("config get", "maxmemory" in {str(key, "ascii") if isinstance(key, bytes) else key for key in client.config_get("max*")}, True)
    same("command count", client.command_count() > 50, True)
    same("time", abs(client.time()[0] - time.time()) < 3, True)
    same("hello", client.execute_command("HELLO")[b"proto" if protocol == 3 else 5], protocol)
    refused("an unknown command", redis.ResponseError, client.execute_command, "NONSENSE")


def users():
    refused("no password", redis.AuthenticationError, redis.Redis(HOST, SECURED_PORT).get, "key")
    refused("a wrong password", redis.AuthenticationError, redis.Redis(HOST, SECURED_PORT, password="wrong").get, "key")
    for protocol in (2, 3):
        default = redis.Redis(HOST, SECURED_PORT, password="secret", protocol=protocol)
        same(f"a password, RESP{protocol}", default.set("key", "v"), True)
        user = redis.Redis.from_url(f"redis://app:word@{HOST}:{SECURED_PORT}?protocol={protocol}")
        same(f"a user, RESP{protocol}", user.set("app:key", "v"), True)
        same("acl whoami", user.acl_whoami() in ("app", b"app"), True)
        refused("another's key", redis.exceptions.NoPermissionError, user.get, "key")
        refused("another's command", redis.exceptions.NoPermissionError, user.config_get)


def client_side_cache():
    writer = redis.Redis(HOST, PORT)
    reader = redis.Redis(HOST, PORT, protocol=3, cache_config=CacheConfig(max_size=100))
    writer.set("cached", "1")
    same("cache: get", reader.get("cached"), b"1")
    cache = reader.get_cache()
    same("cache: one entry", cache.size, 1)
    same("cache: get again", reader.get("cached"), b"1")
    writer.set("cached", "2")
    soon("cache: another's set is seen", lambda: reader.get("cached"), b"2")
    writer.incr("cached")
    soon("cache: another's incr is seen", lambda: reader.get("cached"), b"3")
    writer.delete("cached")
    soon("cache: another's del is seen", lambda: reader.get("cached"), None)
    same("cache: mget", reader.mget("cached", "x1"), [None, None])
    writer.mset({"cached": 5, "x1": 6})
    soon("cache: another's mset is seen", lambda: reader.mget("cached", "x1"), [b"5", b"6"])
    writer.set("cached", "7", px=100)
    soon("cache: before it expires", lambda: reader.get("cached"), b"7")
    writer.flushall()
    soon("cache: flushall is seen", lambda: reader.get("x1"), None)
    for at in range(150):
        writer.set(f"fill{at}", at)
        reader.get(f"fill{at}")
    same("cache: its bound", cache.size <= 100, True)
    reader.set("own", "1")
    same("cache: own write", (reader.get("own"), reader.set("own", "2")), (b"1", True))
    soon("cache: own write is seen", lambda: reader.get("own"), b"2")


async def tasks():
    client = redis.asyncio.Redis(host=HOST, port=PORT)
    await asyncio.gather(*(client.set(f"task{at}", at) for at in range(100)))
    same("tasks: 100 sets, 100 gets", await asyncio.gather(*(client.get(f"task{at}") for at in range(100))), [str(at).encode() for at in range(100)])
    async with client.pipeline(transaction=True) as pipe:
        same("tasks: multi", await pipe.incr("tasks").incr("tasks").execute(), [1, 2])
    same("tasks: scan", len([key async for key in client.scan_iter("task*")]), 101)
    await client.aclose()


for protocol in (2, 3):
    client = redis.Redis(HOST, PORT, protocol=protocol)
    strings(client)
    expiry(client)
    transactions(client)
    scans(client)
    connection(client, protocol)
decoded = redis.Redis(HOST, PORT, decode_responses=True)
same("decoded", (decoded.set("ä", "ö"), decoded.get("ä")), (True, "ö"))
major, minor = redis.Redis(HOST, PORT).info("server")["redis_version"].split(".")[:2]
if (int(major), int(minor)) >= (7, 4):
    client_side_cache()
else:
    skipped("the client-side cache", "redis-py wants Redis 7.4")
asyncio.run(tasks())
users()
end()
