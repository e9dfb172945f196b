"""functools' `lru_cache`, over the native table."""

from functools import update_wrapper
from typing import NamedTuple

from ._frazil import Memoized


class CacheInfo(NamedTuple):
    """The counts of a function with a cache, as functools gives them."""

    hits: int
    misses: int
    maxsize: int | None
    currsize: int


class _LruCached(Memoized):
    """A function with the results of its last calls."""

    __slots__ = ("__dict__", "__weakref__", "_maxsize", "_typed")

    def __new__(cls, function, maxsize, typed):
        self = super().__new__(cls, function, maxsize, bool(typed))
        self._maxsize = maxsize
        self._typed = typed
        return self

    def cache_info(self):
        """Hits, misses, the bound, and how many results are stored."""
        hits, misses, stored = self._counts()
        return CacheInfo(hits, misses, self._maxsize, stored)

    def cache_parameters(self):
        """What the decorator was given, as a new dictionary."""
        return {"maxsize": self._maxsize, "typed": self._typed}


_LruCached._call_fast()


def lru_cache(maxsize=128, typed=False):
    """Keep the results of the last calls of a function: functools' decorator, faster.

    The cache holds `maxsize` results and evicts the one not used for longest; `None` means no
    bound, 0 or less that nothing is stored. Arguments must be hashable; calls that differ in
    the order of named arguments are different, and with `typed` those that differ in a type.
    The function has `cache_info()`, `cache_clear()`, `cache_parameters()` and `__wrapped__`.
    Threads that miss the same key at once each call the function; see `cached` for one call.

    O(1) a call. Errors of the function, and of `__hash__` and `__eq__` of arguments, pass
    through; nothing is stored then. `TypeError` if `maxsize` is neither an integer nor `None`.

    >>> import frazil
    >>> @frazil.lru_cache(maxsize=100)
    ... def square(number):
    ...     return number * number
    >>> square(4), square(4)
    (16, 16)
    >>> square.cache_info()
    CacheInfo(hits=1, misses=1, maxsize=100, currsize=1)
    """
    if callable(maxsize) and isinstance(typed, bool):
        return update_wrapper(_LruCached(maxsize, 128, typed), maxsize)
    if maxsize is not None:
        if not isinstance(maxsize, int):
            raise TypeError("maxsize is an integer or None, or the function itself")
        maxsize = max(maxsize, 0)

    def decorate(function):
        return update_wrapper(_LruCached(function, maxsize, typed), function)

    return decorate
