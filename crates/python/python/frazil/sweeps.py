"""Sweeps: cells of trace × policy × capacity on the cores of this machine, or of a cluster.

The driver, this file, knows all cells and hands them out, some at a time for each thread of a node
(`node.py`): one that is long, or as many short ones as are worth a message. A node takes a trace
that no other has yet, the longest first, and its longest cells first; when none is left it helps
with the trace that has most to do. So few nodes decode a trace, and each at most once.
"""

from __future__ import annotations

import hashlib
import json
import operator
import os

from . import __version__, _frazil
from .replay import _bar, _in_python, _words, named, several
from .rowfiles import TYPES, RowFiles
from .table import Table

__all__ = ["sweep"]

# A cell whose worker has died so often is given up: it may be what kills them.
DEATHS = 3

# How long a replay takes beside FIFO's, roughly: only the order of cells depends on it.
WEIGHTS = {
    "fifo": 1, "clock": 1, "lru": 1.5, "sieve": 1.5, "mobius": 1.5, "random": 1.5, "belady": 4,
    "lfu": 3, "arc": 3, "lirs": 3, "w-tinylfu": 4, "gdsf": 6, "lecar": 8, "cacheus": 10,
    "lhd": 12, "hyperbolic": 12, "gl-cache": 12, "mad": 8, "lrb": 200,
}


def sweep(traces, policies, capacities, *, seeds=None, cluster=None, out=None, workers=None,
          progress=None, **options):
    """Replay every policy at every capacity over every trace; a row for each cell, in this order.

    traces, policies, capacities: as for `simulate`: several of each, or a single one. seeds: each
    policy that draws random numbers is replayed once with each.
    cluster: `None` for processes of this machine, on `workers` cores (default: all); "ray" for the
    Ray cluster that this program is connected to, or that runs here; or a cluster's address. Every
    node needs this version of the package and the files of the traces under the same names.
    out: a folder in which rows are kept, as Parquet, as they end. Another call does only the cells
    that are missing there; failed ones are done again.
    options: those of `simulate`, without `threads`. progress: as for `simulate`.

    The values and the order of rows do not depend on the cluster. A cell that fails is a row with
    the text of its `error`. The cells of a worker that dies are done again. `stats` of the table
    has the number of cells `replayed` and `kept`, and the traces that each node decoded.

    Raises ValueError for an unknown policy, and for options and capacities that make no sense
    whatever the trace; ConnectionError for a cluster that does not answer; and RuntimeError that
    names a node without this version of the package, or says that the worker process of this
    machine ended five times without a row, as where it is killed whenever it starts.

    >>> import frazil
    >>> table = frazil.sweep("loop:objects=1K:requests=9K", ["lru", "random"], ["1%", "10%"],
    ...                      seeds=[1, 2], workers=1)
    >>> list(zip(table["policy"], table["seed"], table["capacity"]))[:3]
    [('lru', None, 10), ('lru', None, 100), ('random', 1, 10)]
    >>> table.stats["replayed"]
    6
    """
    if workers is not None:
        workers = _whole("workers", workers, 1)
    cells, sources = _cells(traces, policies, capacities, seeds, options)
    files = RowFiles(None if out is None else os.fspath(out))
    for cell in cells:
        cell.row = files.read(cell.key)
    stats = {"kept": sum(cell.row is not None for cell in cells), "replayed": 0, "decoded": {}}
    missing = [cell for cell in cells if cell.row is None]
    if missing:
        bar = _bar(progress)
        nodes = _nodes(cluster, workers, missing)
        try:
            _replay(missing, sources, nodes, files, stats, bar or progress)
        finally:
            nodes.close()
            if bar is not None:
                bar.close()
    return SweepTable([cell.row for cell in cells], notes=files.notes, stats=stats)


class SweepTable(Table):
    """The rows of a sweep, and what was done for them."""

    def __init__(self, rows, *, notes, stats):
        super().__init__(rows, notes=notes)
        self.stats = stats


class _Cell:
    """A cell, and its row when that is known."""

    __slots__ = ("trace", "words", "key", "cost", "fixed", "row", "deaths")


class _Source:
    """A trace: its name for people and for nodes, its words, and its data if it is in memory."""

    __slots__ = ("name", "key", "words", "data", "reading", "requests")


def _whole(name, number, least):
    try:
        whole = operator.index(number)
    except TypeError:
        whole = -1
    if not least <= whole < 2**64:
        raise ValueError(f"{name}: {number!r}, expected whole numbers from {least} to 2^64 - 1")
    return whole


# How messages begin, or what is in them, that are true of every trace.
_OF_EVERY_TRACE = ("unexpected argument", "invalid value", "a value is required")
_WRONG_UNIT = "is in bytes, but objects are counted"


def _check_options(flags, capacities):
    """Fails on options that `simulate` does not know, and on values of them and capacities that it
    can't read. What only some traces don't suit is told by the rows of these."""
    words = ["simulate", *flags, "--trace=one", "--policy=lru"]
    words += [f"--capacity={capacity}" for capacity in capacities]
    try:
        _frazil.rows(words, [("one", _frazil.Records([1]))], None, False)
    except ValueError as error:
        text = str(error)
        if text.startswith(_OF_EVERY_TRACE) or _WRONG_UNIT in text:
            raise ValueError(_in_python(text)) from None
    except Exception:
        pass


def _cells(given, policies, capacities, seeds, options):
    for name in ("threads", "policy", "capacity", "output"):
        if name in options:
            raise ValueError(f"{name}: no option of a sweep")
    policies = [one for text in several(policies) for one in str(text).split(",")]
    seeds = [] if seeds is None else [_whole("seeds", seed, 0) for seed in several(seeds)]
    seeded = []
    for policy in policies:
        _frazil.policy_name(policy)
        names = [(seed, _frazil.policy_name(policy, seed)) for seed in seeds]
        if names and all(name is not None for _, name in names):
            seeded += [(policy, f"{policy}:seed={seed}", seed) for seed, _ in names]
        else:
            seeded.append((policy, policy, None))
    capacities = [one for text in several(capacities) for one in str(text).split(",")]
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in _words(options)]
    flags += [f"--{name.replace('_', '-')}" for name, value in options.items() if value is True]
    _check_options(flags, capacities)
    sources, cells = {}, []
    for source, identity, requests in _sources(given, options):
        source.words = ["simulate", *flags, f"--trace={source.key}"]
        source.requests = requests
        sources[source.key] = source
        for policy, name, seed in seeded:
            for capacity in capacities:
                cell = _Cell()
                cell.trace, cell.row, cell.deaths = source.key, None, 0
                cell.words = ["simulate", "--threads=1", *flags, f"--trace={source.key}",
                              f"--policy={name}", f"--capacity={capacity}"]
                parts = [1, __version__, source.name, identity, name, capacity, sorted(flags)]
                cell.key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
                base = name.split("+")[-1].split(":")[0]
                cell.cost = requests * WEIGHTS.get(base, 2)
                cell.fixed = {"trace": source.name, "policy": policy, "seed": seed,
                              "capacity_given": capacity}
                cells.append(cell)
    for source in sources.values():
        source.words += [f"--policy={name}" for _, name, _ in seeded]
        source.words += [f"--capacity={capacity}" for capacity in capacities]
    if not cells:
        raise ValueError("a sweep without a trace, a policy or a capacity")
    return cells, sources


def _sources(given, options):
    """Traces, what their rows depend on, and about how many requests they have."""
    names, memory, data = named(given, options)
    memory = dict(memory)
    columns = options.get("columns")
    reading = (columns if isinstance(columns, dict) else None, options.get("time_unit"))
    if len(set(names)) < len(names):
        raise ValueError("a sweep over two traces of one name")
    for name in names:
        source = _Source()
        source.name, source.key, source.data, source.reading = name, name, None, reading
        if name in memory:
            records = memory[name]
            source.data = data[name]
            yield source, records.digest(), len(records)
        elif name == "-":
            raise ValueError("a sweep can't read standard input")
        elif os.path.exists(name):
            source.key, about = os.path.abspath(name), os.stat(name)
            yield source, [source.key, about.st_size, about.st_mtime_ns], about.st_size / 8
        else:
            yield source, name, _requests(name)


def _requests(spec):
    """The requests of a generated trace, about."""
    for part in spec.split(":"):
        name, _, number = part.partition("=")
        if name == "requests":
            scale = {"K": 1e3, "M": 1e6, "G": 1e9}.get(number[-1:].upper(), 1)
            try:
                return float(number.rstrip("KMGkmg")) * scale
            except ValueError:
                return 1e6
    return 1e6


class _Board:
    """The cells that are left, by trace, and which nodes have which trace."""

    # What decoding takes of a request, as WEIGHTS; helping with fewer cells does not pay.
    DECODING = 8
    # Cells that cost less than this together are handed out together: some 50 ms, beside which a
    # call of a Ray actor, 1.6 ms of processor time, is little.
    TOGETHER = 8e6

    def __init__(self, cells, sources):
        self.sources, self.left = sources, len(cells)
        self.waiting = {cell.trace: [] for cell in cells}
        self.owners = {trace: set() for trace in self.waiting}
        self.running = dict.fromkeys(self.waiting, 0)
        for cell in sorted(cells, key=lambda cell: -cell.cost):
            self.waiting[cell.trace].append(cell)

    def _cost(self, trace):
        return sum(cell.cost for cell in self.waiting[trace])

    def take(self, node):
        """The next cells for a node, all of one trace; none if there is none that it should do."""
        some = [trace for trace, cells in self.waiting.items() if cells]
        own = [trace for trace in some if node in self.owners[trace]]
        free = [trace for trace in some if not self.owners[trace]]
        pays = [trace for trace in some
                if self._cost(trace) > self.DECODING * self.sources[trace].requests]
        for choice in (own, free, pays):
            if choice:
                trace = max(choice, key=self._cost)
                self.owners[trace].add(node)
                cells = self._pop(self.waiting[trace])
                self.running[trace] += len(cells)
                return cells
        return []

    def _pop(self, waiting):
        cells, cost = [waiting.pop(0)], 0
        while waiting:
            cost += cells[-1].cost
            # One whose worker died is done alone, so that it takes no others with it.
            if cost + waiting[0].cost > self.TOGETHER or cells[-1].deaths or waiting[0].deaths:
                break
            cells.append(waiting.pop(0))
        return cells

    def end(self, cell):
        """Whether its trace has no more cells."""
        self.left -= 1
        self.running[cell.trace] -= 1
        return not self.waiting[cell.trace] and not self.running[cell.trace]

    def put_back(self, cell):
        self.running[cell.trace] -= 1
        self.waiting[cell.trace].insert(0, cell)

    def forget(self, node):
        """A node that is no more, with its traces."""
        for owners in self.owners.values():
            owners.discard(node)


def _replay(cells, sources, nodes, files, stats, progress):
    board, total = _Board(cells, sources), len(cells)
    while board.left:
        for node in nodes.ready():
            while node.free > 0 and (some := board.take(node.name)):
                node.start(some, sources[some[0].trace])
        for node, cell, outcome in nodes.wait():
            if outcome is None:
                board.forget(node.name)
                if cell is None:
                    continue
                cell.deaths += 1
                if cell.deaths < DEATHS:
                    board.put_back(cell)
                    continue
                outcome = ({"error": f"its worker died {DEATHS} times"}, False)
            row, decoded = outcome
            if decoded:
                stats["decoded"].setdefault(node.name, []).append(cell.fixed["trace"])
            row = {**row, **cell.fixed}
            cell.row = {name: row.get(name) for name in TYPES}
            files.write(cell.key, cell.row)
            stats["replayed"] += 1
            if board.end(cell):
                nodes.drop(cell.trace)
            if progress:
                progress("cells", total - board.left, total)


def _nodes(cluster, workers, cells):
    if cluster is None:
        from .local import LocalNodes

        return LocalNodes(min(_cores() if workers is None else workers, len(cells)))
    if workers is not None:
        raise ValueError("workers: of this machine alone; a cluster has the cores of its nodes")
    from .cluster import RayNodes

    return RayNodes(cluster)


def _cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
