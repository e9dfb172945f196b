"""The rows of a sweep in a folder, a Parquet file for each cell.

A file is written beside its place and moved there, so that it is whole or absent even if the
program is killed. Its name is a hash of all that its row depends on; with the row it has a checksum
of its values, because Parquet as pyarrow writes it does not notice a bit that has changed.
"""

from __future__ import annotations

import hashlib
import json
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


def _checksum(row):
    values = json.dumps([row[name] for name in TYPES])
    return hashlib.sha256(values.encode()).hexdigest().encode()


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
            found = table.schema.metadata or {}
            if found.get(b"frazil_cell") != key.encode() or table.num_rows != 1 or table.column_names != list(TYPES):
                raise ValueError("not the row of this cell")
            row = table.to_pylist()[0]
            if found.get(b"frazil_checksum") != _checksum(row):
                raise ValueError("its checksum is wrong")
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
        table = self._pyarrow.Table.from_pylist([row], schema=self._schema)
        # Of the row as it is read again.
        checksum = _checksum(table.to_pylist()[0])
        table = table.replace_schema_metadata(
            {b"frazil_cell": key.encode(), b"frazil_checksum": checksum}
        )
        path = self._path(key)
        beside = f"{path}.{os.getpid()}.tmp"
        try:
            self._pyarrow.parquet.write_table(table, beside, compression="none")
            os.replace(beside, path)
        except BaseException:
            if os.path.exists(beside):
                os.remove(beside)
            raise
