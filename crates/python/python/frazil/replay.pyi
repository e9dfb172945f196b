from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, Protocol, TypedDict, Unpack

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

class _Reading(TypedDict, total=False):
    format: str
    columns: str | Mapping[str, int | str]
    separator: str
    header: bool
    time_unit: Literal["s", "ms", "us", "ns"]
    limit: int | str
    skip_bad_rows: bool

class _Replaying(_Reading, total=False):
    unit: Literal["objects", "bytes"]
    ttl: str

# Of a cell, however it is replayed: also `sweep`'s.
class CellOptions(_Replaying, total=False):
    warmup: int | str
    resize_on_get: bool
    fetch_latency: int | str
    clock: Literal["request", "trace"]

class _SimulateOptions(CellOptions, total=False):
    threads: int

class _MrcOptions(_Replaying, total=False):
    capacity: Capacity | Iterable[Capacity]
    points: int
    sample: int | str
    threads: int

def simulate(
    trace: Traces,
    policy: str | Iterable[str],
    capacity: Capacity | Iterable[Capacity],
    *,
    progress: Progress | None = None,
    **options: Unpack[_SimulateOptions],
) -> Table: ...
def mrc(
    trace: Traces,
    policy: str | Iterable[str] = "lru",
    *,
    progress: Progress | None = None,
    **options: Unpack[_MrcOptions],
) -> Table: ...
def advise(trace: Traces | None = None, *, progress: Progress | None = None, **options: Any) -> Table: ...
def trace_info(
    trace: Traces, *, progress: Progress | None = None, **options: Unpack[_Reading]
) -> Table: ...
