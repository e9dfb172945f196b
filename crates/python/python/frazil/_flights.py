"""One call a key, however many threads or tasks ask.

A key that is being computed has a flight. Whoever asks for it meanwhile waits in the flight,
and is told how it ended: with a value, with an error that is shared, or that it is to lead now,
as the leader was cancelled or has an error of its own.

No code of users runs while a lock is held.

An interrupt, such as `KeyboardInterrupt`, may end any function here after any of its steps. What
ends a flight or hands it over can therefore be called again, and goes on where it was.
"""

import threading
from collections import deque
from contextvars import ContextVar

# What a caller is to do, and the ends of a flight: pairs of one of the first four and a value.
VALUE, ERROR, LEAD, GONE, WAIT, DIRECT = range(6)

# The flights that this context leads: a call within a flight's call, also by a task that it
# began, does not wait for that flight.
_leading = ContextVar("frazil_leading", default=())

# Guards `Flight.waits_for` of all flights.
_graph = threading.Lock()


class ThreadWaiter:
    """A thread that waits for a flight."""

    __slots__ = ("end", "_woken")

    def __init__(self):
        self.end = None
        self._woken = threading.Lock()
        self._woken.acquire()

    def wake(self):
        """Tells the thread that `end` is set. Returns whether it can be told."""
        try:
            self._woken.release()
        except RuntimeError:  # was told before
            pass
        return True

    def wait(self):
        self._woken.acquire()


class TaskWaiter:
    """A task that waits for a flight, which a task of another loop may lead."""

    __slots__ = ("end", "_running_loop", "_loop", "_future")

    def __init__(self):
        # Not when the package is imported: it takes as long as all the rest.
        import asyncio

        self.end = None
        self._running_loop = asyncio._get_running_loop
        self._loop = asyncio.get_running_loop()
        self._future = self._loop.create_future()

    def wake(self):
        """Tells the task that `end` is set. Returns whether it can be told."""
        if self._running_loop() is self._loop:
            self._finish()
            return True
        try:
            self._loop.call_soon_threadsafe(self._finish)
        except RuntimeError:  # the loop is closed
            return False
        return True

    def _finish(self):
        # A task that was cancelled sees by `end` what it was told.
        if not self._future.done():
            self._future.set_result(None)

    async def wait(self):
        await self._future


class Flight:
    """A key that is being computed."""

    __slots__ = ("_lock", "_waiters", "_end", "waits_for")

    def __init__(self):
        self._lock = threading.Lock()
        self._waiters = deque()
        self._end = None
        # The flights that calls within this one's call wait for.
        self.waits_for = []

    def join(self, waiter):
        """Lets a waiter in. Returns the end of the flight, if it has ended."""
        with self._lock:
            if self._end is None:
                self._waiters.append(waiter)
            return self._end

    def leave(self, waiter):
        """Takes out a waiter that gives up. Returns whether it was to lead by now."""
        with self._lock:
            if waiter.end is None:
                # It is not there if the flight has ended, or if an interrupt came before it joined.
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
                return False
        return waiter.end[0] is LEAD

    @property
    def has_ended(self):
        return self._end is not None

    def land(self, kind, value):
        """Ends the flight for all that wait, unless it has ended: then they are told again."""
        with self._lock:
            if self._end is None:
                self._end = (kind, value)
            waiters = tuple(self._waiters)
        for waiter in waiters:
            waiter.end = self._end
            waiter.wake()

    def next_leader(self, chosen):
        """Has the one that waits for longest lead, or ends the flight. Whether anyone leads.

        `chosen`, empty at first, has that one: with it a call goes on where another ended.
        """
        while True:
            with self._lock:
                if not chosen:
                    if not self._waiters:
                        self._end = (GONE, None)
                        return False
                    chosen.append(self._waiters[0])
                waiter = chosen[0]
                waiter.end = (LEAD, None)
                if self._waiters and self._waiters[0] is waiter:
                    self._waiters.popleft()
            if waiter.wake():
                return True
            chosen.clear()


def enter(flight):
    """Marks the context as leading a flight."""
    _leading.set((*_leading.get(), flight))


def leave(flight):
    """Takes the mark away, if it is there."""
    _leading.set(tuple(other for other in _leading.get() if other is not flight))


def may_wait(flight):
    """Notes that this context waits for a flight, unless that would wait for this context.

    Returns the flights that wait, to be passed to `waited`, or `None` if they must not.
    """
    leading = _leading.get()
    if not leading:
        return ()
    with _graph:
        seen, open_ = set(), [flight]
        while open_:
            other = open_.pop()
            if any(other is mine for mine in leading):
                return None
            if other not in seen:
                seen.add(other)
                open_.extend(other.waits_for)
        for mine in leading:
            mine.waits_for.append(flight)
    return leading


def waited(leading, flight):
    """Takes back the note of `may_wait`."""
    if leading:
        with _graph:
            for mine in leading:
                if flight in mine.waits_for:
                    mine.waits_for.remove(flight)
