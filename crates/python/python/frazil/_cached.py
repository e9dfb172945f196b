"""`frazil.cached`: results of a function in a `frazil.Cache`, and one call a key."""

import os
import weakref
from functools import update_wrapper, wraps

from ._flights import DIRECT, ERROR, GONE, LEAD, VALUE, WAIT, Flight, TaskWaiter, ThreadWaiter
from ._flights import enter, leave, may_wait, waited
from ._frazil import Cache, CallKey, Memoized, _answer, _discard, _peek, _store
from ._lru_cache import CacheInfo

_ABSENT = object()


class _Calls:
    """The calls of one function that found no result. Their keys are `CallKey`s."""

    def __init__(self, function, cache, share_errors):
        self.function = function
        self.cache = cache
        self.share_errors = share_errors
        self.flights = {}
        _all_calls.add(self)

    def clear(self):
        # What is under way was asked for before: it is not stored, and nobody joins it.
        self.flights = {}
        self.cache.clear()

    def call(self, key, arguments, named):
        """The result of a key: computed, or of the thread that does."""
        named = named or {}
        try:
            while True:
                with _Turn(self, key, ThreadWaiter) as turn:
                    if turn.kind is WAIT:
                        turn.waiter.wait()
                        turn.hear()
                    if turn.kind is LEAD:
                        with _Lead(turn) as lead:
                            if lead.value is _ABSENT:
                                lead.value = self.function(*arguments, **named)
                        return lead.value
                if turn.kind is DIRECT:
                    return self.function(*arguments, **named)
                if turn.kind is not GONE:
                    return turn.result()
        finally:
            # An error has this frame, and the flight has the error: no cycle of the two.
            turn = lead = None

    async def call_async(self, key, arguments, named):
        """The result of a key: computed, or of the task that does."""
        try:
            while True:
                with _Turn(self, key, TaskWaiter) as turn:
                    if turn.kind is WAIT:
                        await turn.waiter.wait()
                        turn.hear()
                    if turn.kind is LEAD:
                        with _Lead(turn) as lead:
                            if lead.value is _ABSENT:
                                lead.value = await self.function(*arguments, **named)
                        return lead.value
                if turn.kind is DIRECT:
                    return await self.function(*arguments, **named)
                if turn.kind is not GONE:
                    return turn.result()
        finally:
            turn = lead = None  # as in `call`


class _Turn:
    """What a caller that found no result is to do: `kind`, one of `_flights`; known on entry.

    Whatever ends a caller, also an interrupt between two steps, the exit gives up what it still
    has of the flight: its place among those that wait, or the lead.
    """

    def __init__(self, calls, key, new_waiter):
        self.calls = calls
        self.key = key
        self.flights = calls.flights
        self.new = Flight()
        self.flight = self.kind = self.value = None
        # The flights that wait for this one because of this caller.
        self.leading = ()
        self.new_waiter = new_waiter
        self.waiter = None
        # The next leader, once there is one.
        self.chosen = []
        # Whether nothing of a lead is left to do.
        self.is_over = False

    def __enter__(self):
        try:
            self.take()
            return self
        except BaseException:
            self.give_up()
            raise

    def __exit__(self, kind, error, trace):
        self.give_up()

    def take(self):
        self.flight = self.flights.setdefault(self.key, self.new)
        if self.flight is self.new:
            self.kind = LEAD
            return
        leading = may_wait(self.flight)
        if leading is None:
            self.kind = DIRECT
            return
        self.leading = leading
        self.waiter = self.new_waiter()
        self.kind, self.value = self.flight.join(self.waiter) or (WAIT, None)
        if self.kind is not WAIT:
            self.end_wait()
            # A flight that has ended is in the table only if `__eq__` has raised as it left.
            if self.flights.get(self.key) is self.flight:
                self.remove()
                self.kind = GONE

    def hear(self):
        """Takes what the waiter was told."""
        self.kind, self.value = self.waiter.end
        self.end_wait()

    def end_wait(self):
        self.waiter = None
        waited(self.leading, self.flight)
        self.leading = ()

    def give_up(self):
        if self.kind is None:
            # Looked for by identity, as `__eq__` may be what has raised.
            leads = any(flight is self.new for flight in list(self.flights.values()))
            self.flight = self.new if leads else self.flight
        else:
            leads = self.kind is LEAD and not self.is_over
        waiter = self.waiter
        if leads or waiter is not None and self.flight.leave(waiter):
            leave(self.flight)
            self.pass_on()
        if waiter is not None or self.leading:
            self.end_wait()

    def result(self):
        try:
            if self.kind is ERROR:
                raise self.value
            return self.value
        finally:
            self = None  # as in `call`

    def remove(self):
        # A flight that was passed on after it had left may have a successor by now.
        if self.flights.get(self.key) is self.flight:
            self.flights.pop(self.key, None)

    def pass_on(self):
        """Has the next waiter lead, unless the flight has ended."""
        if self.flight.has_ended:
            self.flight.land(GONE, None)
            self.remove()
        elif not self.flight.next_leader(self.chosen):
            self.remove()
        self.is_over = True


class _Lead:
    """Leads a flight: `value` is to be set, unless it is there on entry."""

    def __init__(self, turn):
        self.turn = turn

    def __enter__(self):
        enter(self.turn.flight)
        try:
            # Stored between the look of this caller and its flight, by the flight before.
            self.value = _peek(self.turn.calls.cache, self.turn.key, _ABSENT)
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        self.is_new = self.value is _ABSENT
        return self

    def __exit__(self, kind, error, trace):
        leave(self.turn.flight)
        turn, calls = self.turn, self.turn.calls
        if error is None:
            try:
                if self.is_new:
                    self.store()
                turn.remove()
            finally:
                turn.flight.land(VALUE, self.value)
            turn.is_over = True
        elif calls.share_errors and isinstance(error, Exception):
            try:
                turn.remove()
            finally:
                turn.flight.land(ERROR, error)
            turn.is_over = True
        else:
            turn.pass_on()

    def store(self):
        turn, calls = self.turn, self.turn.calls
        if calls.flights is turn.flights:
            _store(calls.cache, turn.key, self.value)
        if calls.flights is not turn.flights:
            # Cleared since it was asked for.
            _discard(calls.cache, turn.key)


_all_calls = weakref.WeakSet()


def _forget_flights():
    # A child process has the flights of its parent, and not the threads.
    for calls in list(_all_calls):
        calls.flights = {}


os.register_at_fork(after_in_child=_forget_flights)


class _Cached(Memoized):
    """A function whose results are in a cache."""

    __slots__ = ("__dict__", "__weakref__")


_Cached._call_fast()


def _add_members(wrapper, cache, calls, parameters):
    def cache_info():
        """Hits, misses (also of calls that waited), the bound, and how many results are stored."""
        stats = cache.stats()
        return CacheInfo(stats.hits, stats.misses, cache.maxsize, stats.entries)

    def cache_clear():
        """Forgets all results; calls under way are not stored."""
        calls.clear()

    def cache_parameters():
        """What the decorator was given, as a new dictionary."""
        return dict(parameters)

    wrapper.cache = cache
    wrapper.cache_info = cache_info
    wrapper.cache_clear = cache_clear
    wrapper.cache_parameters = cache_parameters
    return wrapper


def _decorate(function, cache, key, typed, share_errors):
    # Not when the package is imported: it takes long.
    from inspect import iscoroutinefunction

    calls = _Calls(function, cache, share_errors)
    cached = _Cached(function, None, bool(typed), key, cache, calls.call)
    if not iscoroutinefunction(function):
        return update_wrapper(cached, function), calls
    cache_key = cached.cache_key

    @wraps(function)
    async def wrapper(*arguments, **named):
        answer = _answer(cache, cache_key(*arguments, **named))
        if type(answer) is not CallKey:
            return answer
        return await calls.call_async(answer, arguments, named)

    wrapper.cache_key = cache_key
    return wrapper, calls


def cached(maxsize=128, policy="mobius", *, ttl=None, key=None, typed=False, share_errors=True):
    """Keep the results of a function or coroutine function in a `frazil.Cache`.

    While a result is computed, others that ask for it wait: one call a key, however many
    threads or tasks ask. If it raises, so does every call that waited; with
    `share_errors=False` the next of them calls the function instead. In either case one that is
    cancelled or interrupted hands over: the next that waits calls the function. A call within a
    call that would wait for itself calls the function at once.

    `maxsize`, `policy` and `ttl` (seconds) are `frazil.Cache`'s; `maxsize=None` has no bound.
    `key(*args, **kwargs)` makes the key from the arguments, by default as `functools.lru_cache`
    does, with types if `typed`. A method's key begins with its object, which is kept alive with
    the result: leave it out with `key`, if that is not wanted.

    The function has `cache`, `cache_key(*args, **kwargs)`, `cache_info()`, `cache_clear()`,
    `cache_parameters()` and `__wrapped__`. O(1) a call that hits. `ValueError` for a size below
    0 and for an unknown policy, with near names.

    >>> import frazil
    >>> @frazil.cached(maxsize=1000, ttl=60)
    ... def length(word):
    ...     print("computing")
    ...     return len(word)
    >>> length("frazil"), length("frazil")
    computing
    (6, 6)
    >>> del length.cache[length.cache_key("frazil")]
    >>> length("frazil")
    computing
    6
    """
    function = None
    if callable(maxsize):
        function, maxsize = maxsize, 128
    if key is not None and not callable(key):
        raise TypeError("key is a function of the arguments")
    parameters = {"maxsize": maxsize, "policy": policy, "ttl": ttl, "key": key, "typed": typed}
    parameters["share_errors"] = share_errors

    def decorate(function):
        cache = Cache(maxsize, policy, ttl=ttl)
        wrapper, calls = _decorate(function, cache, key, typed, share_errors)
        return _add_members(wrapper, cache, calls, parameters)

    if function is None:
        # Wrong settings are told where they are given.
        Cache(maxsize, policy, ttl=ttl)
        return decorate
    return decorate(function)
