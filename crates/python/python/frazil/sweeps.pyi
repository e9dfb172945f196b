from collections.abc import Sequence
from os import PathLike
from typing import Any, Literal

from .replay import Capacity, Progress, Traces
from .table import Table

class SweepTable(Table):
    stats: dict[str, Any]

def sweep(
    traces: Traces,
    policies: str | Sequence[str],
    capacities: Capacity | Sequence[Capacity],
    *,
    seeds: int | Sequence[int] | None = None,
    cluster: str | None = None,
    out: str | PathLike[str] | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
    unit: Literal["objects", "bytes"] = ...,
    warmup: int | str = ...,
    resize_on_get: bool = ...,
    fetch_latency: int | str = ...,
    clock: Literal["request", "trace"] = ...,
    ttl: str = ...,
    format: str = ...,
    columns: str = ...,
    separator: str = ...,
    header: bool = ...,
    time_unit: Literal["s", "ms", "us", "ns"] = ...,
    limit: int | str = ...,
    skip_bad_rows: bool = ...,
) -> SweepTable: ...
