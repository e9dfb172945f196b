import io.lettuce.core.ClientOptions;
import io.lettuce.core.GetExArgs;
import io.lettuce.core.KeyValue;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScanArgs;
import io.lettuce.core.ScanIterator;
import io.lettuce.core.SetArgs;
import io.lettuce.core.TrackingArgs;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.async.RedisAsyncCommands;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.codec.ByteArrayCodec;
import io.lettuce.core.protocol.ProtocolVersion;
import io.lettuce.core.support.caching.CacheAccessor;
import io.lettuce.core.support.caching.CacheFrontend;
import io.lettuce.core.support.caching.ClientSideCaching;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;

/** Lettuce: strings, expiry, transactions, pipelines, scans, users, reactive calls, RESP2 and RESP3, its client-side cache. */
final class UseLettuce {
    private final Checking check;

    private UseLettuce(Checking check) {
        this.check = check;
    }

    public static void main(String[] arguments) throws Exception {
        UseLettuce use = new UseLettuce(new Checking(arguments));
        for (ProtocolVersion protocol : List.of(ProtocolVersion.RESP2, ProtocolVersion.RESP3)) {
            RedisClient client = use.client(protocol, use.check.port, null, null);
            StatefulRedisConnection<String, String> connection = client.connect();
            use.values(client, connection.sync());
            use.expiry(connection.sync());
            use.transactions(client, connection);
            use.scans(connection.sync());
            use.server(connection.sync());
            use.reactive(connection);
            connection.close();
            use.users(protocol);
        }
        use.clientSideCache();
        use.check.end();
    }

    private RedisClient client(ProtocolVersion protocol, int port, String user, String password) {
        RedisURI.Builder address = RedisURI.builder().withHost(check.host).withPort(port).withClientName("me");
        if (user != null) {
            address.withAuthentication(user, password.toCharArray());
        } else if (password != null) {
            address.withPassword(password.toCharArray());
        }
        RedisClient client = RedisClient.create(address.build());
        client.setOptions(ClientOptions.builder().protocolVersion(protocol).autoReconnect(false).build());
        return client;
    }

    private void values(RedisClient client, RedisCommands<String, String> commands) {
        String big = "0123456789".repeat(100_000);
        check.same("flushall", commands::flushall, "OK");
        check.same("ping", commands::ping, "PONG");
        check.same("get, absent", () -> commands.get("absent"), null);
        check.same("set", () -> commands.set("key", "value"), "OK");
        check.same("get", () -> commands.get("key"), "value");
        check.same("set nx, present", () -> commands.set("key", "x", SetArgs.Builder.nx()), null);
        check.same("setGet", () -> commands.setGet("key", "other"), "value");
        check.same("append", () -> commands.append("key", "!"), 6L);
        check.same("strlen", () -> commands.strlen("key"), 6L);
        check.same("getrange", () -> commands.getrange("key", 1, -2), "ther");
        check.same("setrange", () -> commands.setrange("key", 5, "??"), 7L);
        check.same("getdel", () -> commands.getdel("key"), "other??");
        try (StatefulRedisConnection<byte[], byte[]> bytes = client.connect(ByteArrayCodec.INSTANCE)) {
            check.same("set, all bytes", () -> bytes.sync().set(Checking.allBytes(250), Checking.allBytes(256)), "OK");
            check.same("get, all bytes", () -> bytes.sync().get(Checking.allBytes(250)), Checking.allBytes(256));
        }
        check.same("set, a million bytes", () -> commands.set("big", big), "OK");
        check.same("get, a million bytes", () -> commands.get("big"), big);
        check.same("mset", () -> commands.mset(Map.of("a", "1", "b", "2", "ä", "ö")), "OK");
        check.same("mget", () -> commands.mget("a", "absent", "ä"),
            List.of(KeyValue.just("a", "1"), KeyValue.empty("absent"), KeyValue.just("ä", "ö")));
        check.same("exists", () -> commands.exists("a", "b", "absent"), 2L);
        check.same("del", () -> commands.del("b", "absent"), 1L);
        check.same("incr", () -> commands.incr("n"), 1L);
        check.same("incrby", () -> commands.incrby("n", 9), 10L);
        check.same("decr", () -> commands.decr("n"), 9L);
        check.same("incrbyfloat", () -> commands.incrbyfloat("n", 0.5), 9.5);
        check.refused("incr of a word", "not an integer", () -> commands.incr("ä"));
        check.same("setbit", () -> commands.setbit("bits", 7, 1), 0L);
        check.same("bitcount", () -> commands.bitcount("bits"), 1L);
        check.same("type", () -> commands.type("n"), "string");
    }

    private void expiry(RedisCommands<String, String> commands) throws Exception {
        check.same("setex", () -> commands.setex("lives", 100, "v"), "OK");
        check.same("ttl", () -> commands.ttl("lives") >= 99, true);
        check.same("persist", () -> commands.persist("lives"), true);
        check.same("ttl, none", () -> commands.ttl("lives"), -1L);
        check.same("ttl, absent", () -> commands.ttl("absent"), -2L);
        check.same("expire", () -> commands.expire("lives", 50), true);
        check.same("getex", () -> commands.getex("lives", GetExArgs.Builder.ex(30)), "v");
        check.same("psetex", () -> commands.psetex("short", 60, "s"), "OK");
        Thread.sleep(100);
        check.same("get, expired", () -> commands.get("short"), null);
    }

    private void transactions(RedisClient client, StatefulRedisConnection<String, String> connection) {
        RedisCommands<String, String> commands = connection.sync();
        check.same("multi, exec", () -> {
            commands.multi();
            commands.set("t", "1");
            commands.incr("t");
            List<Object> replies = new ArrayList<>();
            commands.exec().forEach(replies::add);
            return replies;
        }, List.of("OK", 2L));
        check.same("1,000 sets at once", () -> {
            RedisAsyncCommands<String, String> async = connection.async();
            List<RedisFuture<String>> sets = new ArrayList<>();
            connection.setAutoFlushCommands(false);
            for (int at = 0; at < 1000; at++) {
                sets.add(async.set("p" + at, "" + at));
            }
            connection.flushCommands();
            connection.setAutoFlushCommands(true);
            Set<String> replies = new HashSet<>();
            for (RedisFuture<String> set : sets) {
                replies.add(set.get(10, TimeUnit.SECONDS));
            }
            return replies;
        }, Set.of("OK"));
        try (StatefulRedisConnection<String, String> other = client.connect()) {
            check.same("watch, changed", () -> {
                commands.watch("t");
                other.sync().set("t", "changed");
                commands.multi();
                commands.set("t", "mine");
                return commands.exec().wasDiscarded();
            }, true);
        }
        check.same("watch, unchanged", () -> {
            commands.watch("t");
            commands.multi();
            commands.set("t", "mine");
            return commands.exec().wasDiscarded();
        }, false);
    }

    private void scans(RedisCommands<String, String> commands) {
        check.same("scan", () -> {
            Set<String> found = new HashSet<>();
            ScanIterator.scan(commands, ScanArgs.Builder.matches("p99?").limit(100)).forEachRemaining(found::add);
            return found.size();
        }, 10);
        check.same("keys", () -> new TreeSet<>(commands.keys("p99[01]")), new TreeSet<>(List.of("p990", "p991")));
        check.same("dbsize", () -> commands.dbsize() >= 1000, true);
    }

    private void server(RedisCommands<String, String> commands) {
        check.same("clientId", () -> commands.clientId() > 0, true);
        check.same("clientGetname", commands::clientGetname, "me");
        check.same("clientList", () -> commands.clientList().contains("name=me"), true);
        check.same("info", () -> commands.info("server").contains("redis_version:7."), true);
        check.same("configGet", () -> commands.configGet("maxmemory").size(), 1);
        check.same("command", () -> commands.command().size() > 50, true);
        check.same("time", () -> commands.time().size(), 2);
    }

    private void reactive(StatefulRedisConnection<String, String> connection) {
        check.same("reactive", () -> connection.reactive().set("r", "1").then(connection.reactive().incr("r")).block(), 2L);
    }

    private void users(ProtocolVersion protocol) {
        check.refused("no password", "NOAUTH", () -> client(protocol, check.securedPort, null, null).connect().sync().get("key"));
        check.refused("a wrong password", "WRONGPASS", () -> client(protocol, check.securedPort, null, "wrong").connect());
        check.same("a password", () -> client(protocol, check.securedPort, null, "secret").connect().sync().set("key", "v"), "OK");
        RedisCommands<String, String> app = client(protocol, check.securedPort, "app", "word").connect().sync();
        check.same("a user", () -> app.set("app:key", "v"), "OK");
        check.same("aclWhoami", app::aclWhoami, "app");
        check.refused("another's key", "NOPERM", () -> app.get("key"));
        check.refused("another's command", "NOPERM", () -> app.configGet("maxmemory"));
    }

    private void clientSideCache() throws Exception {
        RedisClient client = client(ProtocolVersion.RESP3, check.port, null, null);
        RedisCommands<String, String> writer = client.connect().sync();
        StatefulRedisConnection<String, String> reader = client.connect();
        Map<String, String> copies = new ConcurrentHashMap<>();
        CacheFrontend<String, String> cache =
            ClientSideCaching.enable(CacheAccessor.forMap(copies), reader, TrackingArgs.Builder.enabled());
        writer.set("cached", "1");
        check.same("cache: get", () -> cache.get("cached"), "1");
        check.same("cache: a copy", () -> copies.get("cached"), "1");
        writer.incr("cached");
        check.soon("cache: another's incr drops the copy", () -> copies.get("cached"), null);
        check.same("cache: get of the new value", () -> cache.get("cached"), "2");
        writer.del("cached");
        check.soon("cache: another's del drops the copy", () -> copies.get("cached"), null);
        check.same("cache: get, absent", () -> cache.get("cached"), null);
    }
}
