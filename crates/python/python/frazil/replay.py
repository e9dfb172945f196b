"""The simulator: miss ratios of policies over traces, as the command `frazil` has them.

Options are those of the command, with underscores: `frazil simulate --help` explains each.
"""

from __future__ import annotations

import os
import threading

from . import _frazil
from .table import Table

__all__ = ["advise", "mrc", "simulate", "trace_info"]


def simulate(trace, policy, capacity, *, progress=None, **options):
    """Replay traces against policies and capacities: a row for each trace × policy × capacity.

    trace: a file, a generated workload (`"zipf:1.0:objects=1M:requests=20M:seed=1"`), an array of
    ids, a dict of columns (`id`, and any of `time`, `size`, `operation`, `latency`, `ttl`), anything
    with Arrow's C stream, or a list of traces, or a dict of traces by name. Memory is read in place
    where the type fits.
    policy: a name, or several. capacity: `1000`, `"10%"`, `"64MiB"`, or several.
    options: those of `frazil simulate`: unit, warmup, threads, limit, ttl, fetch_latency, clock,
    resize_on_get, format, columns, separator, header, time_unit, skip_bad_rows.
    progress: `True` for a bar of tqdm, or a function of (what, done, total).

    The lock of the interpreter is free meanwhile, and Ctrl-C stops the replay.

    Raises FileNotFoundError, `frazil.TraceError` for a damaged trace, and ValueError for what makes
    no sense: an unknown policy (with the nearest name), columns of a wrong type.

    >>> import frazil
    >>> rows = frazil.simulate("zipf:1.0:objects=1K:requests=20K", ["fifo", "sieve"], "10%")
    >>> [row["policy"] for row in rows]
    ['fifo', 'sieve']
    >>> rows[1]["misses"] < rows[0]["misses"]
    True
    >>> frazil.simulate([1, 2, 1, 3, 1], "lru", 2)["hits"]
    [2]
    """
    options.update(policy=policy, capacity=capacity)
    return _rows(["simulate"], trace, options, progress)


def mrc(trace, policy="lru", *, progress=None, **options):
    """Miss ratios by capacity: a curve for each policy.

    trace, policy, progress: as for `simulate`. options: those of `frazil mrc`: capacity, points,
    sample, unit, threads, ttl, limit, and those that read traces.

    >>> import frazil
    >>> curve = frazil.mrc("zipf:1.0:objects=1K:requests=20K", points=5)
    >>> curve["miss_ratio"] == sorted(curve["miss_ratio"], reverse=True)
    True
    """
    return _rows(["mrc"], trace, {"policy": policy, **options}, progress)


def advise(trace=None, *, progress=None, **options):
    """Recommend a policy and a size: a row for each cell that was compared, and a recommendation.

    The recommendation is the last row, `advice[-1]`, and has the reason as text. Without a trace it
    is for a generated workload. options: those of `frazil advise`: cores, backend, policy, capacity,
    sample, budget, target_miss, target_latency, memory_price, miss_price, request_rate, report,
    figures, unit, threads, and those that read traces.

    >>> import frazil
    >>> advice = frazil.advise("zipf:1.0:objects=1K:requests=20K", policy=["lru", "sieve"], cores=2)
    >>> advice[-1]["kind"], advice[-1]["policy"] in ("lru", "sieve")
    ('recommendation', True)
    """
    return _rows(["advise"], [] if trace is None else trace, options, progress)


def trace_info(trace, *, progress=None, **options):
    """Requests, objects, footprint, time span and popularity of traces, a row for each.

    options: those that read traces: limit, format, columns, separator, header, time_unit,
    skip_bad_rows.

    >>> import frazil
    >>> info = frazil.trace_info("loop:objects=100:requests=1K")[0]
    >>> info["requests"], info["objects"]
    (1000, 100)
    """
    return _rows(["trace", "info"], trace, options, progress)


def _rows(verb, trace, options, progress):
    names, memory, _ = named(trace, options)
    words = verb + [f"--{name.replace('_', '-')}={value}" for name, value in _words(options)]
    words += [f"--{name.replace('_', '-')}" for name, value in options.items() if value is True]
    words += [f"--trace={name}" for name in names]
    bar, raised = _bar(progress), []

    def tell(*told):
        try:
            return (bar or progress)(*told)
        except BaseException as error:
            raised.append(error)
            raise

    try:
        rows, notes = _frazil.rows(
            words, memory, tell if bar or progress else None, threading.active_count() > 1
        )
    except ValueError as error:
        if type(error) is not ValueError or any(error is one for one in raised):
            raise  # A subclass has a text of its own; the progress function's is the user's.
        raise ValueError(_in_python(str(error))) from None
    finally:
        raised.clear()  # Its traceback refers to this call.
        if bar is not None:
            bar.close()
    return Table(rows, notes=[_in_python(note) for note in notes])


# Options that the command takes as yes or no, and not by being there.
_YES_NO = ("header",)


def _words(options):
    for name, value in options.items():
        if name in _YES_NO and isinstance(value, bool):
            yield name, "yes" if value else "no"
        elif value is None or isinstance(value, bool):
            continue
        elif name == "columns" and isinstance(value, dict):
            yield name, ",".join(f"{role}={place}" for role, place in value.items())
        else:
            for one in several(value):
                yield name, os.fsdecode(one) if isinstance(one, bytes) else one


def several(value):
    """The values of a list, a range, an array, or any other sequence; anything else is one value."""
    if isinstance(value, (str, bytes, os.PathLike, dict)):
        return [value]
    try:
        return list(value)
    except TypeError:
        return [value]


def _is_number(value):
    if isinstance(value, (int, float)):
        return True
    from numbers import Number

    return isinstance(value, Number)


# Names of columns: of the ids, and of all others.
_IDS = ("id", "key", "object", "obj_id")
_OTHER_COLUMNS = ("time", "timestamp", "size", "operation", "op", "latency", "ttl")


def named(trace, options):
    """Names of traces, those of them that are in memory, and what these were made from, by name."""
    names, memory, given = [], [], {}
    reading = {name: options.get(name) for name in ("columns", "time_unit")}
    if not isinstance(reading["columns"], dict):
        reading["columns"] = None

    def add(trace, name=None):
        if isinstance(trace, (str, bytes, os.PathLike)):
            names.append(os.fsdecode(trace))
            return
        if name is None:
            name = "memory" if not memory else f"memory {len(memory) + 1}"
        names.append(name)
        memory.append((name, _frazil.Records(trace, reading["columns"], reading["time_unit"])))
        given[name] = trace

    if isinstance(trace, dict) and not any(name in trace for name in _IDS):
        if mistaken := [repr(name) for name in trace if name in _OTHER_COLUMNS]:
            raise ValueError(
                f"columns {', '.join(mistaken)} without a column id (traces by name need other names)"
            )
        for name, one in trace.items():
            if isinstance(one, (str, bytes, os.PathLike)):
                raise ValueError(f"trace {name!r}: files keep their own names; give them in a list")
            add(one, str(name))
    elif isinstance(trace, (list, tuple)) and not all(map(_is_number, trace)):
        if any(it is None or _is_number(it) for it in trace):
            raise ValueError("a list is of traces or of whole numbers, not of both, nor of None")
        for one in trace:
            add(one)
    elif isinstance(trace, (list, tuple)) and not trace:
        pass
    else:
        add(trace)
    return names, memory, given


def _in_python(text):
    """A message of the command with its flags as arguments of Python."""
    import re

    text = text.removesuffix(" (see --help)").replace("add --unit bytes", 'add unit="bytes"')
    text = text.replace(": give a FILE, or --trace FILE", "")
    text = re.sub(r" found tip: to pass .* as a value, use .*", "", text)
    return re.sub(r"--([a-z][a-z-]*)", lambda flag: flag[1].replace("-", "_"), text)


def _bar(progress):
    if progress is not True:
        return None
    try:
        from tqdm.auto import tqdm
    except ImportError:
        raise ImportError("progress=True needs tqdm; a function will do as well") from None

    class Bar:
        def __init__(self):
            self.bar, self.what = None, None

        def __call__(self, what, done, total):
            if what != self.what:
                self.close()
                self.bar, self.what = tqdm(desc=what, unit_scale=True), what
            self.bar.total = total or None
            self.bar.n = done
            self.bar.refresh()

        def close(self):
            if self.bar is not None:
                self.bar.close()

    return Bar()
