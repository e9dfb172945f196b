import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import net.spy.memcached.CASMutation;
import net.spy.memcached.CASMutator;
import net.spy.memcached.CASResponse;
import net.spy.memcached.CASValue;
import net.spy.memcached.ConnectionFactoryBuilder;
import net.spy.memcached.FailureMode;
import net.spy.memcached.MemcachedClient;
import net.spy.memcached.internal.OperationFuture;
import net.spy.memcached.transcoders.SerializingTranscoder;

/** spymemcached: its text protocol, values of Java's types, futures, many keys at once. */
final class UseSpymemcached {
    public static void main(String[] arguments) throws Exception {
        Checking check = new Checking(arguments);
        System.setProperty("net.spy.log.LoggerImpl", "net.spy.memcached.compat.log.SLF4JLogger");
        MemcachedClient client = new MemcachedClient(
            new ConnectionFactoryBuilder().setOpTimeout(10_000).setFailureMode(FailureMode.Retry).build(),
            List.of(new InetSocketAddress(check.host, check.port)));
        String big = "0123456789".repeat(100_000);

        check.same("flush", () -> client.flush().get(), true);
        check.same("get, absent", () -> client.get("absent"), null);
        check.same("set", () -> client.set("key", 0, "value").get(), true);
        check.same("get", () -> client.get("key"), "value");
        for (Object value : List.of(5, 5L, 0.5, true, (byte) 7, "ä鍵", new ArrayList<>(List.of(1, "x")))) {
            String name = value.getClass().getSimpleName();
            check.same("set, " + name, () -> client.set("of" + name, 0, value).get(), true);
            check.same("get, " + name, () -> client.get("of" + name), value);
        }
        check.same("set, empty", () -> client.set("empty", 0, "").get(), true);
        check.same("get, empty", () -> client.get("empty"), "");
        check.same("set, all bytes", () -> client.set("bytes", 0, Checking.allBytes(256)).get(), true);
        check.same("get, all bytes", () -> client.get("bytes"), Checking.allBytes(256));
        check.same("add, present", () -> client.add("key", 0, "x").get(), false);
        check.same("add, absent", () -> client.add("added", 0, "2").get(), true);
        check.same("replace, present", () -> client.replace("added", 0, "2").get(), true);
        check.same("replace, absent", () -> client.replace("absent", 0, "x").get(), false);
        check.same("append", () -> client.append("added", "3").get(), true);
        check.same("prepend", () -> client.prepend("added", "1").get(), true);
        check.same("get, appended", () -> client.get("added"), "123");
        check.same("append, absent", () -> client.append("absent", "x").get(), false);
        check.same("delete", () -> client.delete("added").get(), true);
        check.same("delete, absent", () -> client.delete("added").get(), false);

        CASValue<Object> seen = client.gets("key");
        check.same("gets", seen::getValue, "value");
        check.same("cas", () -> client.cas("key", seen.getCas(), "swapped"), CASResponse.OK);
        check.same("cas, old number", () -> client.cas("key", seen.getCas(), "late"), CASResponse.EXISTS);
        check.same("cas, absent", () -> client.cas("absent", seen.getCas(), "x"), CASResponse.NOT_FOUND);
        CASMutator<Object> mutator = new CASMutator<>(client, new SerializingTranscoder());
        check.same("a mutator", () -> mutator.cas("key", "first", 0, (CASMutation<Object>) value -> value + "!"), "swapped!");

        client.set("number", 0, "10").get();
        check.same("incr", () -> client.incr("number", 5), 15L);
        check.same("decr", () -> client.decr("number", 6), 9L);
        check.same("decr below zero", () -> client.decr("number", 100), 0L);
        check.same("incr, absent", () -> client.incr("absent", 1), -1L);
        check.same("incr with a first value", () -> client.incr("counter", 1, 40L), 40L);
        check.same("incr of it", () -> client.incr("counter", 2, 40L), 42L);

        List<OperationFuture<Boolean>> sets = new ArrayList<>();
        List<String> keys = new ArrayList<>();
        for (int at = 0; at < 1000; at++) {
            keys.add("many" + at);
            sets.add(client.set("many" + at, 0, at));
        }
        check.same("1,000 sets at once", () -> {
            for (OperationFuture<Boolean> set : sets) {
                if (!set.get()) {
                    return set.getStatus();
                }
            }
            return true;
        }, true);
        check.same("getBulk", () -> client.getBulk(keys).size(), 1000);
        check.same("getBulk, absent", () -> client.getBulk("many7", "absent"), Map.of("many7", 7));

        check.same("set, a million characters", () -> client.set("big", 0, big).get(), true);
        check.same("get, a million characters", () -> client.get("big"), big);
        check.same("a key of 250 bytes", () -> client.set("k".repeat(250), 0, "k").get(), true);
        check.same("get of it", () -> client.get("k".repeat(250)), "k");
        check.same("a key in UTF-8", () -> client.set("schlüssel-鍵", 0, "u").get(), true);
        check.same("get of a key in UTF-8", () -> client.get("schlüssel-鍵"), "u");

        client.set("short", 1, "s").get();
        client.set("kept", 1, "k").get();
        check.same("touch", () -> client.touch("kept", 60).get(), true);
        check.same("touch, absent", () -> client.touch("absent", 60).get(), false);
        Thread.sleep(2100);
        check.same("get, expired", () -> client.get("short"), null);
        check.same("get, touched", () -> client.get("kept"), "k");

        check.same("getVersions", () -> client.getVersions().values().iterator().next().startsWith("1."), true);
        check.same("getStats", () -> Integer.parseInt(client.getStats().values().iterator().next().get("curr_items")) > 1000, true);
        check.same("getStats, settings", () -> client.getStats("settings").values().iterator().next().containsKey("maxbytes"), true);
        check.same("flush", () -> client.flush().get(), true);
        check.same("get, flushed", () -> client.get("many5"), null);
        client.shutdown();
        check.end();
    }
}
