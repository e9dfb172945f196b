"""A cache for many threads, and a simulator that says which policy and size to give it."""

from ._frazil import Cache, CacheRecording, CacheStats, __version__
from ._cached import cached
from ._lru_cache import CacheInfo, lru_cache
from . import _views as _views  # registers `Cache` as a mapping

__all__ = [
    "Cache",
    "CacheInfo",
    "CacheRecording",
    "CacheStats",
    "__version__",
    "cached",
    "lru_cache",
]
