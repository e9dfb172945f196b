"""A cache for many threads, and a simulator that says which policy and size to give it."""

from ._frazil import __version__

__all__ = ["__version__"]
