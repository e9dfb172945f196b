from collections.abc import Iterable
from os import PathLike
from typing import Any, Unpack

from .replay import Capacity, CellOptions, Progress, Traces
from .table import Table

class SweepTable(Table):
    stats: dict[str, Any]

def sweep(
    traces: Traces,
    policies: str | Iterable[str],
    capacities: Capacity | Iterable[Capacity],
    *,
    seeds: int | Iterable[int] | None = None,
    cluster: str | None = None,
    out: str | PathLike[str] | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
    **options: Unpack[CellOptions],
) -> SweepTable: ...
