import java.util.Arrays;
import java.util.Objects;
import java.util.concurrent.Callable;

/** What the programs here share: where the server is, and a line of output for each check. */
final class Checking {
    final String host;
    final int port;
    /** Of a server that wants a password. */
    final int securedPort;

    Checking(String[] arguments) {
        host = arguments[0];
        port = Integer.parseInt(arguments[1]);
        securedPort = Integer.parseInt(arguments[2]);
    }

    void same(String what, Callable<?> find, Object wanted) {
        Object found;
        try {
            found = find.call();
        } catch (Exception error) {
            found = error;
        }
        if (Objects.deepEquals(found, wanted)) {
            System.out.println("ok " + what);
        } else {
            System.out.println("differs " + what + ": " + shown(wanted) + " was expected, " + shown(found) + " came");
        }
    }

    /** The call throws, and the error or its cause has this in its message. */
    void refused(String what, String message, Callable<?> call) {
        Object found;
        try {
            found = call.call();
        } catch (Exception error) {
            found = error;
            for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                if (String.valueOf(cause.getMessage()).contains(message)) {
                    System.out.println("ok " + what);
                    return;
                }
            }
        }
        System.out.println("differs " + what + ": an error with " + message + " was expected, " + shown(found) + " came");
    }

    /** What {@code find} returns becomes the same within two seconds. */
    void soon(String what, Callable<?> find, Object wanted) throws Exception {
        long until = System.nanoTime() + 2_000_000_000L;
        while (!Objects.deepEquals(find.call(), wanted) && System.nanoTime() < until) {
            Thread.sleep(10);
        }
        same(what, find, wanted);
    }

    void skipped(String what, String why) {
        System.out.println("skipped " + what + ": " + why);
    }

    /** The end of a program; threads of a client may still run. */
    void end() {
        System.out.println("end");
        System.exit(0);
    }

    static byte[] allBytes(int length) {
        byte[] all = new byte[length];
        for (int at = 0; at < length; at++) {
            all[at] = (byte) at;
        }
        return all;
    }

    private static String shown(Object value) {
        String text = value instanceof byte[] bytes ? Arrays.toString(bytes) : String.valueOf(value);
        return text.length() <= 120 ? text : text.substring(0, 100) + "... (" + text.length() + " characters)";
    }
}
