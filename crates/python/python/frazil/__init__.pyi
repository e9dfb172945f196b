from ._frazil import Cache, CacheRecording, CacheStats, TraceError, __version__
from ._cached import cached
from ._lru_cache import CacheInfo, lru_cache
from .replay import advise, mrc, simulate, trace_info
from .sweeps import sweep
from .table import Table

__all__ = [
    "Cache",
    "CacheInfo",
    "CacheRecording",
    "CacheStats",
    "Table",
    "TraceError",
    "__version__",
    "advise",
    "cached",
    "lru_cache",
    "mrc",
    "simulate",
    "sweep",
    "trace_info",
]
