import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import redis.clients.jedis.AbstractTransaction;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.Transaction;
import redis.clients.jedis.csc.CacheConfig;
import redis.clients.jedis.params.GetExParams;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.resps.ScanResult;

/** Jedis: strings, expiry, transactions, pipelines, scans, users, a pool, RESP2 and RESP3, its client-side cache. */
final class UseJedis {
    private final Checking check;

    private UseJedis(Checking check) {
        this.check = check;
    }

    public static void main(String[] arguments) throws Exception {
        UseJedis use = new UseJedis(new Checking(arguments));
        for (RedisProtocol protocol : List.of(RedisProtocol.RESP2, RedisProtocol.RESP3)) {
            DefaultJedisClientConfig config = DefaultJedisClientConfig.builder().protocol(protocol).clientName("me").build();
            try (Jedis client = new Jedis(new HostAndPort(use.check.host, use.check.port), config)) {
                use.values(client);
                use.expiry(client);
                use.transactions(client);
                use.scans(client);
                use.connection(client);
            }
            use.users(protocol);
        }
        use.pool();
        use.clientSideCache();
        use.check.end();
    }

    private void values(Jedis client) {
        String big = "0123456789".repeat(100_000);
        check.same("flushAll", client::flushAll, "OK");
        check.same("ping", client::ping, "PONG");
        check.same("get, absent", () -> client.get("absent"), null);
        check.same("set", () -> client.set("key", "value"), "OK");
        check.same("get", () -> client.get("key"), "value");
        check.same("set nx, present", () -> client.set("key", "x", SetParams.setParams().nx()), null);
        check.same("setGet", () -> client.setGet("key", "other"), "value");
        check.same("append", () -> client.append("key", "!"), 6L);
        check.same("strlen", () -> client.strlen("key"), 6L);
        check.same("getrange", () -> client.getrange("key", 1, -2), "ther");
        check.same("setrange", () -> client.setrange("key", 5, "??"), 7L);
        check.same("getDel", () -> client.getDel("key"), "other??");
        check.same("set, all bytes", () -> client.set(Checking.allBytes(250), Checking.allBytes(256)), "OK");
        check.same("get, all bytes", () -> client.get(Checking.allBytes(250)), Checking.allBytes(256));
        check.same("set, a million bytes", () -> client.set("big", big), "OK");
        check.same("get, a million bytes", () -> client.get("big"), big);
        check.same("mset", () -> client.mset("a", "1", "b", "2", "ä", "ö"), "OK");
        check.same("mget", () -> client.mget("a", "b", "ä"), List.of("1", "2", "ö"));
        check.same("mget, absent", () -> client.mget("a", "absent").get(1), null);
        check.same("exists", () -> client.exists("a", "b", "absent"), 2L);
        check.same("del", () -> client.del("b", "absent"), 1L);
        check.same("incr", () -> client.incr("n"), 1L);
        check.same("incrBy", () -> client.incrBy("n", 9), 10L);
        check.same("decr", () -> client.decr("n"), 9L);
        check.same("incrByFloat", () -> client.incrByFloat("n", 0.5), 9.5);
        check.refused("incr of a word", "not an integer", () -> client.incr("ä"));
        check.same("setbit", () -> client.setbit("bits", 7, true), false);
        check.same("bitcount", () -> client.bitcount("bits"), 1L);
        check.same("type", () -> client.type("n"), "string");
    }

    private void expiry(Jedis client) throws Exception {
        check.same("setex", () -> client.setex("lives", 100, "v"), "OK");
        check.same("ttl", () -> client.ttl("lives") >= 99, true);
        check.same("pttl", () -> client.pttl("lives") > 99_000, true);
        check.same("persist", () -> client.persist("lives"), 1L);
        check.same("ttl, none", () -> client.ttl("lives"), -1L);
        check.same("ttl, absent", () -> client.ttl("absent"), -2L);
        check.same("expire", () -> client.expire("lives", 50), 1L);
        check.same("getEx", () -> client.getEx("lives", GetExParams.getExParams().ex(30)), "v");
        check.same("psetex", () -> client.psetex("short", 60, "s"), "OK");
        Thread.sleep(100);
        check.same("get, expired", () -> client.get("short"), null);
    }

    private void transactions(Jedis client) {
        Transaction transaction = client.multi();
        transaction.set("t", "1");
        Response<Long> sum = transaction.incr("t");
        check.same("multi, exec", transaction::exec, List.of("OK", 2L));
        check.same("a response of it", sum::get, 2L);
        Pipeline pipeline = client.pipelined();
        for (int at = 0; at < 1000; at++) {
            pipeline.set("p" + at, "" + at);
        }
        check.same("a pipeline of 1,000", () -> new HashSet<>(pipeline.syncAndReturnAll()), Set.of("OK"));
        client.watch("t");
        try (Jedis other = new Jedis(check.host, check.port)) {
            other.set("t", "changed");
        }
        Transaction late = client.multi();
        late.set("t", "mine");
        check.same("watch, changed", late::exec, null);
        client.watch("t");
        Transaction again = client.multi();
        again.set("t", "mine");
        check.same("watch, unchanged", again::exec, List.of("OK"));
        Transaction dropped = client.multi();
        dropped.set("t", "dropped");
        check.same("discard", dropped::discard, "OK");
        check.same("get after discard", () -> client.get("t"), "mine");
    }

    private void scans(Jedis client) {
        check.same("scan", () -> {
            Set<String> found = new HashSet<>();
            String cursor = ScanParams.SCAN_POINTER_START;
            do {
                ScanResult<String> part = client.scan(cursor, new ScanParams().match("p99?").count(100));
                found.addAll(part.getResult());
                cursor = part.getCursor();
            } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
            return found.size();
        }, 10);
        check.same("keys", () -> new TreeSet<>(client.keys("p99[01]")), new TreeSet<>(List.of("p990", "p991")));
        check.same("dbSize", () -> client.dbSize() >= 1000, true);
        check.same("randomKey", () -> client.randomKey() != null, true);
    }

    private void connection(Jedis client) {
        check.same("clientId", () -> client.clientId() > 0, true);
        check.same("clientGetname", client::clientGetname, "me");
        check.same("clientInfo", () -> client.clientInfo().contains("name=me"), true);
        check.same("clientList", () -> client.clientList().contains("name=me"), true);
        check.same("info", () -> client.info("server").contains("redis_version:7."), true);
        check.same("configGet", () -> client.configGet("maxmemory").size(), 1);
        check.same("time", () -> client.time().size(), 2);
        check.same("echo", () -> client.echo("e"), "e");
    }

    private void users(RedisProtocol protocol) {
        check.refused("no password", "NOAUTH", () -> secured(protocol, null, null).get("key"));
        check.refused("a wrong password", "WRONGPASS", () -> secured(protocol, null, "wrong").get("key"));
        check.same("a password", () -> secured(protocol, null, "secret").set("key", "v"), "OK");
        Jedis app = secured(protocol, "app", "word");
        check.same("a user", () -> app.set("app:key", "v"), "OK");
        check.same("aclWhoAmI", app::aclWhoAmI, "app");
        check.refused("another's key", "NOPERM", () -> app.get("key"));
        check.refused("another's command", "NOPERM", () -> app.configGet("maxmemory"));
        app.close();
    }

    private Jedis secured(RedisProtocol protocol, String user, String password) {
        DefaultJedisClientConfig.Builder config = DefaultJedisClientConfig.builder().protocol(protocol);
        return new Jedis(new HostAndPort(check.host, check.securedPort), config.user(user).password(password).build());
    }

    private void pool() throws Exception {
        try (RedisClient pool = RedisClient.create(check.host, check.port)) {
            pool.set("sum", "0");
            Thread[] threads = new Thread[4];
            for (int at = 0; at < threads.length; at++) {
                threads[at] = new Thread(() -> {
                    for (int number = 0; number < 50; number++) {
                        try (AbstractTransaction transaction = pool.multi()) {
                            transaction.incr("sum");
                            transaction.exec();
                        }
                    }
                });
                threads[at].start();
            }
            for (Thread thread : threads) {
                thread.join();
            }
            check.same("a pool, four threads", () -> pool.get("sum"), "200");
        }
    }

    private void clientSideCache() throws Exception {
        DefaultJedisClientConfig config = DefaultJedisClientConfig.builder().protocol(RedisProtocol.RESP3).build();
        try (RedisClient writer = RedisClient.create(check.host, check.port);
            RedisClient reader = RedisClient.builder().hostAndPort(check.host, check.port).clientConfig(config)
                .cacheConfig(CacheConfig.builder().maxSize(100).build()).build()) {
            writer.set("cached", "1");
            if (writer.info("server").contains("redis_version:7.0.")) {
                check.skipped("the client-side cache", "Jedis wants Redis 7.4");
                return;
            }
            check.same("cache: get", () -> reader.get("cached"), "1");
            check.same("cache: one entry", () -> reader.getCache().getSize(), 1);
            check.same("cache: get again", () -> reader.get("cached"), "1");
            writer.incr("cached");
            check.soon("cache: another's incr is seen", () -> reader.get("cached"), "2");
            writer.del("cached");
            check.soon("cache: another's del is seen", () -> reader.get("cached"), null);
            writer.set("cached", "3");
            check.soon("cache: another's set is seen", () -> reader.get("cached"), "3");
            writer.flushAll();
            check.soon("cache: flushAll is seen", () -> reader.get("cached"), null);
        }
    }
}
