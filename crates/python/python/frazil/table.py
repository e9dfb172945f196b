"""Results as a small table."""

from __future__ import annotations

__all__ = ["Table"]


class Table:
    """Rows of results: a sequence of dicts, and columns by name.

    `table[0]` is a row as a dict, `table["hits"]` a column as a list. `notes` has what the command
    would have told on standard error. It speaks Arrow's C stream, so `polars.DataFrame(table)` and
    `pyarrow.table(table)` take it, and a notebook draws it.

    >>> import frazil
    >>> table = frazil.Table([{"policy": "lru", "hits": 3}, {"policy": "fifo", "hits": 2}])
    >>> table[0], table["hits"], table.columns
    ({'policy': 'lru', 'hits': 3}, [3, 2], ['policy', 'hits'])
    """

    def __init__(self, rows=(), *, notes=()):
        self._rows = [dict(row) for row in rows]
        self.notes = list(notes)

    @property
    def columns(self):
        """All names, in the order in which they appear."""
        return list(dict.fromkeys(name for row in self._rows for name in row))

    def __len__(self):
        return len(self._rows)

    def __getitem__(self, key):
        """A row by number, rows by a slice, or a column by name."""
        if isinstance(key, str):
            if not any(key in row for row in self._rows):
                raise KeyError(key)
            return [row.get(key) for row in self._rows]
        if isinstance(key, slice):
            return Table(self._rows[key], notes=self.notes)
        return self._rows[key]

    def __iter__(self):
        return iter(self._rows)

    def __eq__(self, other):
        if isinstance(other, Table):
            return self._rows == other._rows
        return NotImplemented

    __hash__ = None

    def __add__(self, other):
        """The rows of both."""
        if not isinstance(other, Table):
            return NotImplemented
        return Table(self._rows + other._rows, notes=self.notes + other.notes)

    def filter(self, **values):
        """The rows whose columns have these values.

        >>> import frazil
        >>> table = frazil.Table([{"policy": "lru", "hits": 3}, {"policy": "fifo", "hits": 2}])
        >>> table.filter(policy="fifo")["hits"]
        [2]
        """
        rows = [r for r in self._rows if all(r.get(k) == v for k, v in values.items())]
        return Table(rows, notes=self.notes)

    def _flat(self):
        """Columns of plain values: what is nested becomes JSON."""
        import json

        def plain(value):
            return json.dumps(value) if isinstance(value, (list, dict)) else value

        for name in self.columns:
            values = [plain(value) for value in self[name]]
            kinds = {type(value) for value in values} - {type(None)}
            if len(kinds) > 1 and not kinds <= {int, float}:
                values = [None if value is None else str(value) for value in values]
            yield name, values

    def __arrow_c_stream__(self, requested_schema=None):
        """The capsule of Arrow's C stream interface. Nested values are JSON texts in it."""
        from ._frazil import arrow_stream

        return arrow_stream(list(self._flat()))

    def to_numpy(self):
        """A structured array of NumPy; missing numbers are NaN, nested values objects.

            array = frazil.simulate([1, 2, 1], "lru", [1, 2]).to_numpy()
            array["hits"].sum()
        """
        import numpy

        columns = {}
        for name in self.columns:
            values = self[name]
            kinds = {type(value) for value in values}
            if kinds <= {int, float, type(None)} and kinds - {int}:
                values = [float("nan") if value is None else value for value in values]
                columns[name] = numpy.array(values, dtype=float)
            elif kinds <= {int} and all(-(2**63) <= value < 2**63 for value in values):
                columns[name] = numpy.array(values, dtype=numpy.int64)
            else:
                columns[name] = numpy.empty(len(values), dtype=object)
                columns[name][:] = values
        dtype = [(name, column.dtype) for name, column in columns.items()]
        table = numpy.empty(len(self), dtype=dtype)
        for name, column in columns.items():
            table[name] = column
        return table

    def to_pandas(self):
        """A DataFrame of pandas.

            frame = frazil.simulate([1, 2, 1], "lru", [1, 2]).to_pandas()
            frame.sort_values("miss_ratio")
        """
        import pandas

        return pandas.DataFrame({name: self[name] for name in self.columns}, columns=self.columns)

    def to_dicts(self):
        """The rows as a list of dicts of its own.

        >>> import frazil
        >>> frazil.Table([{"policy": "lru", "hits": 3}]).to_dicts()
        [{'policy': 'lru', 'hits': 3}]
        """
        return [dict(row) for row in self._rows]

    def __repr__(self):
        return f"<frazil.Table: {len(self)} rows of {', '.join(self.columns)}>"

    def __str__(self):
        names = self._shown()
        lines = [names] + [[_text(row.get(name)) for name in names] for row in self._rows]
        widths = [max(len(line[at]) for line in lines) for at in range(len(names))]
        return "\n".join(
            "  ".join(cell.rjust(width) for cell, width in zip(line, widths)).rstrip()
            for line in lines
        )

    def _shown(self):
        """Columns worth a place in a table for people: some value is there, and none is nested."""
        def worth(name):
            values = self[name]
            nested = any(isinstance(value, (list, dict)) for value in values)
            return not nested and any(value is not None for value in values)

        return [name for name in self.columns if worth(name)]

    def _repr_html_(self):
        from html import escape

        names = self._shown()
        head = "".join(f"<th>{escape(name)}</th>" for name in names)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(_text(row.get(name)))}</td>" for name in names) + "</tr>"
            for row in self._rows
        )
        notes = "".join(f"<p><small>{escape(note)}</small></p>" for note in self.notes)
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return self.to_svg() + table + notes

    def to_svg(self):
        """The miss ratios by capacity as an SVG, a line for each policy; empty without them.

        >>> import frazil
        >>> frazil.mrc("zipf:1.0:objects=1K:requests=20K", points=5).to_svg().startswith("<svg")
        True
        """
        from .chart import chart

        return chart(self._rows)


def _text(value):
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)
