"""How tests wait: for an event, with a limit beyond which something hangs."""

import time

# Seconds.
PATIENCE = 60


def until(condition, patience=PATIENCE):
    end = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < end, "it hangs"
        time.sleep(0.001)
