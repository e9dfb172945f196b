from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, Protocol

from .table import Table

class ArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

class _Buffer(Protocol):
    def __len__(self) -> int: ...
    def __getitem__(self, index: Any, /) -> Any: ...

Column = _Buffer | Sequence[int] | Sequence[float] | Sequence[str] | ArrowStream
Trace = (
    str
    | bytes
    | PathLike[str]
    | ArrowStream
    | _Buffer
    | Sequence[int]
    | Mapping[Literal["id", "time", "size", "operation", "op", "latency", "ttl"], Column]
)
Traces = Trace | Sequence[Trace] | Mapping[str, Trace]
Capacity = int | str
Progress = bool | Callable[[str, int, int], object]

def simulate(
    trace: Traces,
    policy: str | Sequence[str],
    capacity: Capacity | Sequence[Capacity],
    *,
    progress: Progress | None = None,
    unit: Literal["objects", "bytes"] = ...,
    warmup: int | str = ...,
    resize_on_get: bool = ...,
    fetch_latency: int | str = ...,
    clock: Literal["request", "trace"] = ...,
    threads: int = ...,
    ttl: str = ...,
    format: str = ...,
    columns: str | Mapping[str, int | str] = ...,
    separator: str = ...,
    header: bool = ...,
    time_unit: Literal["s", "ms", "us", "ns"] = ...,
    limit: int | str = ...,
    skip_bad_rows: bool = ...,
) -> Table: ...
def mrc(
    trace: Traces,
    policy: str | Sequence[str] = "lru",
    *,
    progress: Progress | None = None,
    capacity: Capacity | Sequence[Capacity] = ...,
    points: int = ...,
    sample: int | str = ...,
    unit: Literal["objects", "bytes"] = ...,
    threads: int = ...,
    ttl: str = ...,
    format: str = ...,
    columns: str | Mapping[str, int | str] = ...,
    separator: str = ...,
    header: bool = ...,
    time_unit: Literal["s", "ms", "us", "ns"] = ...,
    limit: int | str = ...,
    skip_bad_rows: bool = ...,
) -> Table: ...
def advise(trace: Traces | None = None, *, progress: Progress | None = None, **options: Any) -> Table: ...
def trace_info(
    trace: Traces,
    *,
    progress: Progress | None = None,
    format: str = ...,
    columns: str | Mapping[str, int | str] = ...,
    separator: str = ...,
    header: bool = ...,
    time_unit: Literal["s", "ms", "us", "ns"] = ...,
    limit: int | str = ...,
    skip_bad_rows: bool = ...,
) -> Table: ...
