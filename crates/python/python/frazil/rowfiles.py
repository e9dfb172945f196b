"""The rows of a sweep in a folder, a Parquet file for each cell.

A file is written beside its place and moved there, so that it is whole or absent even if the
program is killed. Its name is a hash of all that its row depends on.
"""

from __future__ import annotations

import os
import warnings

# Columns and their types, in order: those of `simulate` but the speed, which is no result, and
# what a sweep adds.
TYPES = {
    "trace": str, "policy": str, "capacity": int, "unit": str, "requests": int, "hits": int,
    "delayed_hits": int, "misses": int, "expired": int, "lifetimes": str, "miss_ratio": float,
    "byte_miss_ratio": float, "latency_total": int, "latency_total_least": int,
    "latency_mean": float, "latency_p50": int, "latency_p99": int,
    "delayed_hit_latency_p50": int, "delayed_hit_latency_p99": int, "miss_latency_p50": int,
    "miss_latency_p99": int, "latency_unit": str, "frozen_hits": int, "seed": int,
    "capacity_given": str, "error": str,
}


class RowFiles:
    """The folder; `None` keeps nothing."""

    def __init__(self, folder):
        self.folder, self._pyarrow = folder, None
        self.notes = []
        if folder is None:
            return
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError as error:
            raise ImportError(
                "out= keeps rows as Parquet files, which needs pyarrow: pip install pyarrow"
            ) from error
        self._pyarrow = pyarrow
        kinds = {str: pyarrow.string(), int: pyarrow.uint64(), float: pyarrow.float64()}
        self._schema = pyarrow.schema([(name, kinds[kind]) for name, kind in TYPES.items()])
        os.makedirs(folder, exist_ok=True)

    def _path(self, key):
        return os.path.join(self.folder, f"cell-{key}.parquet")

    def read(self, key):
        """The row of a cell; `None` if it is missing, damaged, or an error."""
        if self.folder is None or not os.path.exists(path := self._path(key)):
            return None
        try:
            table = self._pyarrow.parquet.ParquetFile(path).read()
            found = (table.schema.metadata or {}).get(b"frazil_cell", b"").decode()
            if found != key or table.num_rows != 1 or table.column_names != list(TYPES):
                raise ValueError("not the row of this cell")
            row = table.to_pylist()[0]
        except Exception as error:
            text = f"{path}: damaged ({error}); its cell is replayed again"
            self.notes.append(text)
            warnings.warn(text, stacklevel=4)
            return None
        return None if row["error"] is not None else row

    def write(self, key, row):
        """Keeps the row of a cell."""
        if self.folder is None:
            return
        schema = self._schema.with_metadata({b"frazil_cell": key.encode()})
        table = self._pyarrow.Table.from_pylist([row], schema=schema)
        path = self._path(key)
        beside = f"{path}.{os.getpid()}.tmp"
        try:
            self._pyarrow.parquet.write_table(table, beside, compression="none")
            os.replace(beside, path)
        except BaseException:
            if os.path.exists(beside):
                os.remove(beside)
            raise
