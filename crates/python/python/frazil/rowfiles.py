"""The rows of a sweep in a folder, a Parquet file for each cell.

A file is written beside its place and moved there, so that it is whole or absent even if the
program is killed. Its name is a hash of all that its row depends on; its metadata has a checksum of
all its bytes, because Parquet as pyarrow writes it does not notice a bit that has changed.
"""

from __future__ import annotations

import hashlib
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


# The name of the checksum in the metadata, and what stands in its place while it is computed.
_NAME = b"frazil_checksum"
_BLANK = b"0" * 64


def _parts(content):
    """What is before the checksum of a file, the checksum, and what is behind it."""
    # Between name and value Parquet has the kind of the field and the length.
    at = content.index(_NAME) + len(_NAME) + 2
    return content[:at], content[at:at + len(_BLANK)], content[at + len(_BLANK):]


def _checksum(before, behind):
    return hashlib.sha256(before + _BLANK + behind).hexdigest().encode()


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
            with open(path, "rb") as file:
                content = file.read()
            before, checksum, behind = _parts(content)
            if checksum != _checksum(before, behind):
                raise ValueError("its checksum is wrong")
            table = self._pyarrow.parquet.ParquetFile(self._pyarrow.BufferReader(content)).read()
            found = table.schema.metadata or {}
            if found.get(b"frazil_cell") != key.encode() or table.num_rows != 1 or table.column_names != list(TYPES):
                raise ValueError("not the row of this cell")
            row = table.to_pylist()[0]
        except Exception as error:
            text = f"{path}: damaged ({error}); its cell is replayed again"
            self.notes.append(text)
            warnings.warn(text, stacklevel=3)
            return None
        return None if row["error"] is not None else row

    def write(self, key, row):
        """Keeps the row of a cell."""
        if self.folder is None:
            return
        table = self._pyarrow.Table.from_pylist([row], schema=self._schema)
        table = table.replace_schema_metadata({b"frazil_cell": key.encode(), _NAME: _BLANK})
        sink = self._pyarrow.BufferOutputStream()
        self._pyarrow.parquet.write_table(table, sink, compression="none")
        before, _, behind = _parts(sink.getvalue().to_pybytes())
        path = self._path(key)
        beside = f"{path}.{os.getpid()}.tmp"
        try:
            with open(beside, "wb") as file:
                file.write(before + _checksum(before, behind) + behind)
            os.replace(beside, path)
        except BaseException:
            if os.path.exists(beside):
                os.remove(beside)
            raise
