"""What the programs here share: where the server is, and a line of output for each check.

Arguments: host, port, and the port of a server that wants a password (0: there is none).
"""

import sys
import time

HOST, PORT, SECURED_PORT = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])


def same(what, found, wanted):
    if found == wanted and type(found) is type(wanted):
        print(f"ok {what}")
    else:
        print(f"differs {what}: {short(wanted)} was expected, {short(found)} came")


def refused(what, error, call, *arguments, **named):
    """The call raises this error."""
    try:
        found = call(*arguments, **named)
    except error:
        print(f"ok {what}")
    else:
        print(f"differs {what}: an error was expected, {short(found)} came")


def soon(what, find, wanted):
    """What `find` returns becomes the same within two seconds."""
    until = time.monotonic() + 2
    while (found := find()) != wanted and time.monotonic() < until:
        time.sleep(0.01)
    same(what, found, wanted)


def skipped(what, why):
    print(f"skipped {what}: {why}")


def short(value):
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:100]}... ({len(text)} characters)"


def end():
    print("end", flush=True)
