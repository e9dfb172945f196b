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
import random
import time
from collections.abc import MutableMapping

from ._frazil import CompatCore

__all__ = ("Cache", "FIFOCache", "LFUCache", "LRUCache", "RRCache", "TLRUCache", "TTLCache")

_NOTHING = object()

# Called as functions, so that a derived class may use these names.
_begin, _find, _first = CompatCore._begin, CompatCore._find, CompatCore._first
_put, _pop = CompatCore._put, CompatCore._pop
_dump, _load = CompatCore._dump, CompatCore._load


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

    def _frazil_start(self, maxsize, getsizeof, choose=None):
        if getsizeof is not None:
            self.getsizeof = getsizeof
        _begin(self, maxsize, self.getsizeof is not Cache.getsizeof, choose)
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
        _restore(copy, (self.__dict__, self.__content()))
        return copy

    def __deepcopy__(self, memo):
        from copy import deepcopy

        copy = type(self).__new__(type(self))
        memo[id(self)] = copy
        _restore(copy, deepcopy((self.__getstate__(), self.__content()), memo))
        return copy

    def __reduce_ex__(self, protocol):
        state = (self.__getstate__(), self.__content())
        return copyreg.__newobj__, (type(self),), state, None, None, _restore

    def __content(self):
        return self.maxsize, self.getsizeof is not Cache.getsizeof, self._frazil_choose, *_dump(self)

    _frazil_choose = None

    def _frazil_restored(self):
        """Called when a copy has its attributes and items."""


def _restore(cache, state):
    attributes, (maxsize, sized, choose, items, order) = state
    _begin(cache, maxsize, sized, choose)
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


class _Timer:
    """A clock that stands still within `with`."""

    def __init__(self, timer):
        self._timer = timer
        self._depth = 0

    def __call__(self):
        return self._time if self._depth else self._timer()

    def __enter__(self):
        if not self._depth:
            self._time = self._timer()
        self._depth += 1
        return self._time

    def __exit__(self, *error):
        self._depth -= 1

    def __reduce__(self):
        return _Timer, (self._timer,)

    def __getattr__(self, name):
        # A copy that is not made yet has no `_timer`.
        if name == "_timer":
            raise AttributeError(name)
        return getattr(self._timer, name)


class _TimedCache(Cache):
    """What classes with a clock share."""

    _frazil_rule = "timed"

    def __init__(self, maxsize, timer, getsizeof=None):
        super().__init__(maxsize, getsizeof)
        self.__timer = _Timer(timer)

    @property
    def timer(self):
        """The clock: call it for the time, or enter it to have it stand still."""
        return self.__timer

    def __contains__(self, key):
        found = _find(self, key, False)
        return found is not None and self._frazil_lives(found[1], self.__timer())

    def __getitem__(self, key):
        found = _find(self, key, True)
        if found is not None and self._frazil_lives(found[1], self.__timer()):
            return found[0]
        return self.__missing__(key)

    def __repr__(self):
        with self.__timer as time:
            self.expire(time)
            return super().__repr__()

    def __len__(self):
        self.expire(self.__timer())
        return super().__len__()

    @property
    def currsize(self):
        """The sum of sizes of items that have not expired."""
        self.expire(self.__timer())
        return super().currsize

    def __iter__(self):
        for key in super().__iter__():
            # The clock stands still while the loop's body uses the key.
            with self.__timer as time:
                if self._frazil_lives(_find(self, key, False)[1], time):
                    yield key

    def get(self, key, default=None):
        """The value of a key if it is in the cache and lives, else `default`."""
        with self.__timer:
            return super().get(key, default)

    def pop(self, key, default=_NOTHING):
        """Removes a key and returns its value, else `default`, else raises `KeyError`."""
        with self.__timer:
            return super().pop(key, default)

    def setdefault(self, key, default=None):
        """The value of a key if it lives, else `default`, which is assigned."""
        with self.__timer:
            return super().setdefault(key, default)

    def __delitem__(self, key):
        found = _find(self, key, False)
        super().__delitem__(key)
        if not self._frazil_lives(found[1], self.__timer()):
            raise KeyError(key)

    def popitem(self):
        """Removes what was not used for longest of what lives, and returns it."""
        with self.__timer as time:
            self.expire(time)
            return super().popitem()

    def __copy__(self):
        copy = super().__copy__()
        copy.__timer = _Timer(self.__timer._timer)
        return copy


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

    @staticmethod
    def _frazil_lives(expires, time):
        return time < expires

    def __setitem__(self, key, value):
        with self.timer as time:
            expires = time + self.__ttl
            self.expire(time)
            _put(self, key, value, expires)

    def expire(self, time=None):
        """Removes what has expired by `time`, by default now, and returns the items in a list."""
        if time is None:
            time = self.timer()
        expired = []
        # The order of insertion is that of the last assignments, thus of expiry.
        while (first := _first(self)) is not None and not time < first[1]:
            key = first[0]
            expired.append((key, _find(self, key, False)[0]))
            Cache.__delitem__(self, key)
        return expired

    def _frazil_restored(self):
        self.expire()


class _Deadline:
    """When an item of a `TLRUCache` expires, in a heap."""

    __slots__ = ("expires", "key", "removed")

    def __init__(self, key, expires):
        self.key = key
        self.expires = expires
        self.removed = False

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
        self.__heap = []

    @property
    def ttu(self):
        """The function that says when an item expires."""
        return self.__ttu

    @staticmethod
    def _frazil_lives(deadline, time):
        return time < deadline.expires

    def __setitem__(self, key, value):
        with self.timer as time:
            self.expire(time)
            expires = self.__ttu(key, value, time)
            old = _find(self, key, False)
            if time < expires:
                deadline = _Deadline(key, expires)
                _put(self, key, value, deadline)
                heapq.heappush(self.__heap, deadline)
            elif old is not None:
                Cache.__delitem__(self, key)
            if old is not None:
                old[1].removed = True

    def __delitem__(self, key):
        found = _find(self, key, False)
        if found is not None:
            found[1].removed = True
        super().__delitem__(key)

    def clear(self):
        """Removes all items."""
        super().clear()
        self.__heap.clear()

    def expire(self, time=None):
        """Removes what has expired by `time`, by default now, and returns the items in a list."""
        if time is None:
            time = self.timer()
        heap = self.__heap
        # Deadlines of replaced items stay in the heap, as long as they are no more than the others.
        if len(heap) > 2 * Cache.__len__(self):
            self.__heap = heap = [deadline for deadline in heap if not deadline.removed]
            heapq.heapify(heap)
        expired = []
        while heap and (heap[0].removed or not time < heap[0].expires):
            deadline = heapq.heappop(heap)
            if not deadline.removed:
                expired.append((deadline.key, _find(self, deadline.key, False)[0]))
                Cache.__delitem__(self, deadline.key)
        return expired

    def __copy__(self):
        copy = super().__copy__()
        items, order = _dump(self)
        items = [(key, value, size, _Deadline(key, deadline.expires), uses)
                 for key, value, size, deadline, uses in items]
        _load(copy, items, order)
        copy._frazil_restored()
        return copy

    def _frazil_restored(self):
        self.__heap = [note for _, _, _, note, _ in _dump(self)[0]]
        heapq.heapify(self.__heap)
