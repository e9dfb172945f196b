from collections.abc import Callable, Hashable
from typing import Any, Generic, NamedTuple, TypedDict, TypeVar, final, overload

_T = TypeVar("_T")

class CacheInfo(NamedTuple):
    hits: int
    misses: int
    maxsize: int | None
    currsize: int

class _Parameters(TypedDict):
    maxsize: int | None
    typed: bool

# As typeshed has functools': the arguments of the function are not known to checkers.
@final
class _LruCached(Generic[_T]):
    __wrapped__: Callable[..., _T]
    def __call__(self, *args: Hashable, **kwargs: Hashable) -> _T: ...
    def cache_info(self) -> CacheInfo: ...
    def cache_clear(self) -> None: ...
    def cache_key(self, *args: Hashable, **kwargs: Hashable) -> Hashable: ...
    def cache_parameters(self) -> _Parameters: ...
    def __get__(self, instance: Any, owner: type | None = None) -> _LruCached[_T]: ...
    def __copy__(self) -> _LruCached[_T]: ...
    def __deepcopy__(self, memo: Any, /) -> _LruCached[_T]: ...

@overload
def lru_cache(
    maxsize: int | None = 128, typed: bool = False
) -> Callable[[Callable[..., _T]], _LruCached[_T]]: ...
@overload
def lru_cache(maxsize: Callable[..., _T], typed: bool = False) -> _LruCached[_T]: ...
