"""The classes of cachetools, with their constructors, methods and order of eviction.

Replace `from cachetools import LRUCache` by `from frazil.compat import LRUCache`. The items lie
in a native table; what a class derived from these overrides (`__missing__`, `popitem`,
`__delitem__`, `getsizeof`, `expire`) is called wherever cachetools calls it.

As with cachetools, threads that share a cache guard it with a lock of their own: without one
nothing breaks, yet a value can be computed or evicted twice. `frazil.Cache` needs no lock.

>>> from frazil.compat import LRUCache
>>> cache = LRUCache(maxsize=2)
>>> cache["a"], cache["b"] = 1, 2
>>> cache["a"]
1
>>> cache["c"] = 3
>>> sorted(cache)
['a', 'c']
"""

import copyreg
import heapq
import os
import random
import threading
import time
from copy import copy as copy_of, deepcopy
from collections.abc import MutableMapping

from ._frazil import CompatCore, _Timer

__all__ = ("Cache", "FIFOCache", "LFUCache", "LRUCache", "RRCache", "TLRUCache", "TTLCache")

_NOTHING = object()

# Called as functions, so that a derived class may use these names.
_begin, _find, _put, _pop = CompatCore._begin, CompatCore._find, CompatCore._put, CompatCore._pop
_count, _discard, _expire = CompatCore._count, CompatCore._discard, CompatCore._expire
_dump, _load, _timer = CompatCore._dump, CompatCore._load, CompatCore._timer
_keys = CompatCore._keys


class Cache(CompatCore, MutableMapping):
    """A mapping of a bounded size, and the base of the others: evicts what was inserted first.

    `maxsize` bounds the sum of sizes: of 1 for each item, or of `getsizeof(value)`, which may
    be given or overridden. A value larger than `maxsize` raises `ValueError`, and so does a
    negative `maxsize`. A missing key is passed to `__missing__`, which raises `KeyError` unless
    it is overridden. Each operation is O(1), besides copies.

    >>> from frazil.compat import Cache
    >>> cache = Cache(maxsize=10, getsizeof=len)
    >>> cache["key"] = "value"
    >>> cache.currsize
    5
    """

    _frazil_rule = "plain"

    def __init__(self, maxsize, getsizeof=None):
        self._frazil_start(maxsize, getsizeof)

    def _frazil_start(self, maxsize, getsizeof, choose=None, timer=None):
        if getsizeof is not None:
            self.getsizeof = getsizeof
        _begin(self, maxsize, self.getsizeof is not Cache.getsizeof, choose, timer)
        self.__maxsize = maxsize

    def __repr__(self):
        items = {key: value for key, value, *_ in _dump(self)[0]}
        return f"{type(self).__name__}({items!r}, maxsize={self.maxsize!r}, currsize={self.currsize!r})"

    def pop(self, key, default=_NOTHING):
        """Removes a key and returns its value, else `default`, else raises `KeyError`."""
        return _pop(self, key) if default is _NOTHING else _pop(self, key, default)

    @property
    def maxsize(self):
        """The largest sum of sizes."""
        return self.__maxsize

    @staticmethod
    def getsizeof(value):
        """The size of a value: 1, unless overridden."""
        return 1

    def __copy__(self):
        copy = type(self).__new__(type(self))
        # A clock of its own, which does not stand still while this one does.
        _restore(copy, (self.__dict__, self.__content(copy_of(_timer(self)))))
        return copy

    def __deepcopy__(self, memo):
        copy = type(self).__new__(type(self))
        memo[id(self)] = copy
        _restore(copy, deepcopy((self.__getstate__(), self.__content(_timer(self))), memo))
        return copy

    def __reduce_ex__(self, protocol):
        state = (self.__getstate__(), self.__content(_timer(self)))
        return copyreg.__newobj__, (type(self),), state, None, None, _restore

    def __content(self, timer):
        sized = self.getsizeof is not Cache.getsizeof
        return (self.__maxsize, sized, self._frazil_choose, timer), *_dump(self)

    _frazil_choose = None

    def _frazil_restored(self):
        """Called when a copy has its attributes and items."""


def _restore(cache, state):
    attributes, (settings, items, order) = state
    _begin(cache, *settings)
    _load(cache, items, order)
    if hasattr(cache, "__setstate__"):
        cache.__setstate__(attributes)
    else:
        attributes, slots = attributes if isinstance(attributes, tuple) else (attributes, None)
        cache.__dict__.update(attributes or {})
        for name, value in (slots or {}).items():
            setattr(cache, name, value)
    cache._frazil_restored()


class FIFOCache(Cache):
    """Evicts what was assigned first.

    >>> from frazil.compat import FIFOCache
    >>> cache = FIFOCache(maxsize=2)
    >>> cache.update(a=1, b=2, c=3)
    >>> list(cache)
    ['b', 'c']
    """

    _frazil_rule = "fifo"


class LRUCache(Cache):
    """Evicts what was not used for longest.

    >>> from frazil.compat import LRUCache
    >>> cache = LRUCache(maxsize=2)
    >>> cache.update(a=1, b=2)
    >>> cache.get("a")
    1
    >>> cache.popitem()
    ('b', 2)
    """

    _frazil_rule = "lru"


class LFUCache(Cache):
    """Evicts what was used least often, and of those what was first so.

    >>> from frazil.compat import LFUCache
    >>> cache = LFUCache(maxsize=2)
    >>> cache.update(a=1, b=2)
    >>> cache["b"], cache["a"], cache["a"]
    (2, 1, 1)
    >>> cache.popitem()
    ('b', 2)
    """

    _frazil_rule = "lfu"


class RRCache(Cache):
    """Evicts what `choice` takes from a sequence of the keys: by default any of them.

    >>> from frazil.compat import RRCache
    >>> cache = RRCache(maxsize=2, choice=min)
    >>> cache.update({3: "c", 1: "a", 2: "b"})
    >>> sorted(cache)
    [2, 3]
    """

    _frazil_rule = "random"

    def __init__(self, maxsize, choice=random.choice, getsizeof=None):
        self._frazil_choose = choice
        self._frazil_start(maxsize, getsizeof, choice)

    @property
    def choice(self):
        """The function that chooses a key from a sequence of them."""
        return self._frazil_choose


class _TimedCache(Cache):
    """What classes with a clock share: the note of an item is when it expires."""

    _frazil_rule = "timed"

    def __init__(self, maxsize, timer, getsizeof=None):
        self._frazil_start(maxsize, getsizeof, timer=_Timer(timer))

    @property
    def timer(self):
        """The clock: call it for the time, or enter it to have it stand still."""
        return _timer(self)

    def __repr__(self):
        with self.timer as time:
            self.expire(time)
            return super().__repr__()

    def __iter__(self):
        # Keys may come and go meanwhile: the loop's body may remove what has expired, even by `len`.
        for key in _keys(self):
            # The clock stands still while the loop's body uses the key.
            with self.timer as time:
                found = _find(self, key, False)
                if found is not None and time < found[1]:
                    yield key


class TTLCache(_TimedCache):
    """LRU with a lifetime: an item lives for `ttl` from when it was assigned.

    `timer` gives the time, and `ttl` is what can be added to it: seconds of `time.monotonic`,
    or a `timedelta` with `datetime.now`. Expired items are removed by the next assignment, by
    `len`, `currsize` and `expire`.

    >>> from frazil.compat import TTLCache
    >>> cache = TTLCache(maxsize=10, ttl=60, timer=lambda: now)
    >>> now = 0
    >>> cache["a"] = 1
    >>> now = 60
    >>> "a" in cache
    False
    >>> cache.expire()
    [('a', 1)]
    """

    def __init__(self, maxsize, ttl, timer=time.monotonic, getsizeof=None):
        super().__init__(maxsize, timer, getsizeof)
        self.__ttl = ttl

    @property
    def ttl(self):
        """How long an item lives."""
        return self.__ttl

    def __setitem__(self, key, value):
        with self.timer as time:
            expires = time + self.__ttl
            self.expire(time)
            _put(self, key, value, expires)

    def expire(self, time=None):
        """Removes what has expired by `time`, by default now, and returns the items in a list.

        >>> from frazil.compat import TTLCache
        >>> cache = TTLCache(10, ttl=5, timer=lambda: 100)
        >>> cache["a"] = 1
        >>> cache.expire(104), cache.expire(105)
        ([], [('a', 1)])
        """
        # The order of insertion is that of the last assignments, thus of expiry.
        return _expire(self, self.timer() if time is None else time)

    def _frazil_restored(self):
        self.expire()


# Guards the heaps of all `TLRUCache`: heapq compares deadlines by Python code, in which another
# thread may get its turn. Held while deadlines are compared, and by no other code of users.
_heaps = threading.RLock()


def _renew_lock():
    # A child process has no thread that would let go of it.
    global _heaps
    _heaps = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


class _Deadline:
    """When an item of a `TLRUCache` expires, in a heap."""

    __slots__ = ("expires", "key")

    def __init__(self, key, expires):
        self.key = key
        self.expires = expires

    def __lt__(self, other):
        return self.expires < other.expires


class TLRUCache(_TimedCache):
    """LRU with a lifetime for each item: it expires at the time `ttu(key, value, now)`.

    An item that has expired when it is assigned is not stored.

    >>> from frazil.compat import TLRUCache
    >>> cache = TLRUCache(maxsize=10, ttu=lambda key, value, now: now + value, timer=lambda: now)
    >>> now = 0
    >>> cache["a"], cache["b"] = 10, 20
    >>> now = 15
    >>> list(cache)
    ['b']
    """

    def __init__(self, maxsize, ttu, timer=time.monotonic, getsizeof=None):
        super().__init__(maxsize, timer, getsizeof)
        self.__ttu = ttu
        # Also of items that are gone or have another deadline by now.
        self.__heap = []

    @property
    def ttu(self):
        """The function that says when an item expires."""
        return self.__ttu

    def __setitem__(self, key, value):
        with self.timer as time:
            self.expire(time)
            expires = self.__ttu(key, value, time)
            if time < expires:
                _put(self, key, value, expires)
                with _heaps:
                    heapq.heappush(self.__heap, _Deadline(key, expires))
            else:
                _discard(self, key)

    def clear(self):
        """Removes all items."""
        super().clear()
        with _heaps:
            self.__heap.clear()

    def expire(self, time=None):
        """Removes what has expired by `time`, by default now, and returns the items in a list.

        >>> from frazil.compat import TLRUCache
        >>> cache = TLRUCache(10, ttu=lambda key, value, now: now + value, timer=lambda: 100)
        >>> cache["a"], cache["b"] = 2, 9
        >>> cache.expire(105)
        [('a', 2)]
        """
        if time is None:
            time = self.timer()
        if len(self.__heap) > 2 * _count(self):
            self._frazil_restored()
        expired = []
        while (deadline := self.__pop(time)) is not None:
            found = _find(self, deadline.key, False)
            if found is not None and found[1] is deadline.expires:
                expired.append((deadline.key, found[0]))
                _discard(self, deadline.key)
        return expired

    def __pop(self, time):
        """The first deadline, if that is over by `time`."""
        with _heaps:
            over = self.__heap and not time < self.__heap[0].expires
            return heapq.heappop(self.__heap) if over else None

    def _frazil_restored(self):
        with _heaps:
            self.__heap = [_Deadline(key, expires) for key, _, _, expires, _ in _dump(self)[0]]
            heapq.heapify(self.__heap)
