"""A cache for many threads, and a simulator that says which policy and size to give it."""

from ._frazil import __version__
from ._lru_cache import CacheInfo, lru_cache

__all__ = ["CacheInfo", "__version__", "lru_cache"]
