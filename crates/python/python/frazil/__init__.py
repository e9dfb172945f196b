"""A cache for many threads, and a simulator that says which policy and size to give it."""

from ._frazil import TraceError, __version__
from .replay import advise, mrc, simulate, trace_info
from .sweeps import sweep
from .table import Table

__all__ = [
    "Table",
    "TraceError",
    "__version__",
    "advise",
    "mrc",
    "simulate",
    "sweep",
    "trace_info",
]
