from collections.abc import Callable, Hashable
from datetime import timedelta
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from ._frazil import Cache
from ._lru_cache import CacheInfo

_P = ParamSpec("_P")
_Q = ParamSpec("_Q")
_S = TypeVar("_S")
_R = TypeVar("_R")
_R_co = TypeVar("_R_co", covariant=True)

# What a function with results has, also as a method.
class _Members(Protocol):
    __name__: str
    __qualname__: str
    @property
    def cache(self) -> Cache[Hashable, Any]: ...
    def cache_info(self) -> CacheInfo: ...
    def cache_clear(self) -> None: ...
    def cache_parameters(self) -> dict[str, Any]: ...

# Its `cache_key` is the function's: the key of a call begins with the object.
class _Method(_Members, Protocol, Generic[_P, _R_co]):
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R_co: ...
    def cache_key(self, *args: Any, **kwargs: Any) -> Hashable: ...

# Of a coroutine function `_R_co` is the coroutine.
class _Cached(_Members, Protocol, Generic[_P, _R_co]):
    @property
    def __wrapped__(self) -> Callable[_P, _R_co]: ...
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R_co: ...
    def cache_key(self, *args: _P.args, **kwargs: _P.kwargs) -> Hashable: ...
    @overload
    def __get__(self, instance: None, owner: type | None = None, /) -> _Cached[_P, _R_co]: ...
    @overload
    def __get__(
        self: _Cached[Concatenate[_S, _Q], _R], instance: _S, owner: type | None = None, /
    ) -> _Method[_Q, _R]: ...

class _Decorator(Protocol):
    def __call__(self, function: Callable[_P, _R], /) -> _Cached[_P, _R]: ...

@overload
def cached(
    maxsize: float | None = 128,
    policy: str = "mobius",
    *,
    ttl: float | timedelta | None = None,
    key: Callable[..., Hashable] | None = None,
    typed: bool = False,
    share_errors: bool = True,
) -> _Decorator: ...
@overload
def cached(maxsize: Callable[_P, _R], /) -> _Cached[_P, _R]: ...
