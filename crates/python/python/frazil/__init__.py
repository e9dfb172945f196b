"""A cache for many threads, and a simulator that says which policy and size to give it."""

from ._frazil import Cache, CacheRecording, CacheStats, __version__
from . import _views as _views  # registers `Cache` as a mapping

__all__ = ["Cache", "CacheRecording", "CacheStats", "__version__"]
