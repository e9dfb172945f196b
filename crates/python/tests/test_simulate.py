"""The simulator over files and memory, against the command and against plain counts."""

import array
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import frazil
from patience import PATIENCE

ROOT = Path(__file__).resolve().parents[3]
TRACES = Path(os.environ.get("FRAZIL_TRACES", ROOT.parent / "shared" / "traces"))
COMMAND = os.environ.get("FRAZIL_COMMAND", str(ROOT / "target" / "release" / "frazil"))
SUFFIXES = (".zst", ".gz", ".xz", ".csv")


def real_traces():
    found = sorted(path for path in TRACES.rglob("*") if path.name.endswith(SUFFIXES))
    return [path for path in found if "10m" not in path.name or "FRAZIL_LONG" in os.environ]


def naive_lru(ids, capacity):
    resident, misses = {}, 0
    for it in ids:
        if it in resident:
            resident[it] = resident.pop(it)
            continue
        misses += 1
        if len(resident) == capacity:
            del resident[next(iter(resident))]
        resident[it] = True
    return misses


def some_ids(count=20_000):
    state, ids = 1, []
    for _ in range(count):
        state = state * 6364136223846793005 % 2**64 + 1442695040888963407
        ids.append((state >> 33) % 97 * ((state >> 50) % 11))
    return ids


IDS = some_ids()


@pytest.mark.skipif(not real_traces(), reason=f"NO TRACES below {TRACES}: nothing compared")
@pytest.mark.skipif(not Path(COMMAND).exists(), reason=f"NO COMMAND {COMMAND}: nothing compared")
@pytest.mark.parametrize("path", real_traces(), ids=lambda path: path.name)
def test_equals_the_command_on_every_trace(path):
    policies, capacities = "lru,fifo,sieve,mobius,s3-fifo,w-tinylfu", "1%,10%"
    command = [COMMAND, "simulate", str(path), "--policy", policies, "--capacity", capacities]
    told = subprocess.run([*command, "--output", "json"], capture_output=True, check=True, text=True)
    expected = [json.loads(line) for line in told.stdout.splitlines()]
    rows = frazil.simulate(path, policies, capacities).to_dicts()
    assert [list(row) for row in rows] == [list(row) for row in expected]
    for row in rows + expected:
        del row["requests_per_second"]
    assert rows == expected


@pytest.mark.parametrize("code", "QqLlIiHh")
def test_arrays_of_all_integers_are_read(code):
    table = frazil.simulate(array.array(code, IDS), "lru", [10, 100])
    assert table["misses"] == [naive_lru(IDS, 10), naive_lru(IDS, 100)]
    assert table["requests"] == [len(IDS)] * 2


def test_numpy_arrays_contiguous_or_not():
    numpy = pytest.importorskip("numpy")
    expected = [naive_lru(IDS, 50)]
    ids = numpy.array(IDS, dtype=numpy.uint64)
    spread = numpy.zeros(2 * len(ids), dtype=numpy.int64)
    spread[::2] = ids
    unaligned = numpy.frombuffer(b"x" + ids.tobytes(), dtype=numpy.uint64, offset=1)
    for variant in (ids, spread[::2], numpy.flip(numpy.flip(ids)), unaligned):
        assert frazil.simulate(variant, "lru", 50)["misses"] == expected
    ids.flags.writeable = False
    assert frazil.simulate(ids, "lru", 50)["misses"] == expected


@pytest.mark.skipif(sys.platform != "linux", reason="NO /proc: memory is not measured")
@pytest.mark.memory
def test_an_array_adds_less_than_five_bytes_a_request():
    pytest.importorskip("numpy")
    bench = Path(__file__).parent.parent / "benches" / "simulate.py"
    # Ten million ids of 64 bits, a million objects.
    told = subprocess.run([sys.executable, bench, "--array", "3"], capture_output=True, check=True, text=True)
    assert float(told.stdout) < 5


def test_names_are_ids():
    names = [f"key-{it}" for it in IDS]
    expected = [naive_lru(IDS, 50)]
    assert frazil.simulate({"id": names}, "lru", 50)["misses"] == expected
    assert frazil.simulate({"id": IDS}, "lru", 50)["misses"] == expected


def test_texts_and_objects_of_numpy_are_ids():
    numpy = pytest.importorskip("numpy")
    names = [f"key-{it}" for it in IDS]
    expected = [naive_lru(IDS, 50)]
    for ids in (numpy.array(names), numpy.array(names, dtype=object),
                numpy.array(IDS, dtype=object), list(numpy.array(IDS)), {"id": numpy.array(names)}):
        assert frazil.simulate(ids, "lru", 50)["misses"] == expected
    with pytest.raises(ValueError, match="column id: .S1 is no type of numbers"):
        frazil.simulate(numpy.array([b"a"]), "lru", 5)


def test_masked_values_are_value_errors():
    numpy = pytest.importorskip("numpy")
    ids = numpy.ma.masked_array([1, 2, 1], mask=[False, True, False])
    for trace in (ids, {"id": [1, 2, 3], "size": ids}):
        with pytest.raises(ValueError, match="column (id|size): has masked values"):
            frazil.simulate(trace, "lru", 5)
    assert frazil.simulate(numpy.ma.masked_array([1, 2, 1]), "lru", 5)["hits"] == [1]


def test_capacities_of_any_sequence():
    numpy = pytest.importorskip("numpy")
    expected = frazil.simulate([1, 2, 1, 3, 2], ["lru"], [1, 2, 3])["hits"]
    for capacities in (range(1, 4), numpy.arange(1, 4), (1, 2, 3), numpy.array(["1", "2", "3"])):
        assert frazil.simulate([1, 2, 1, 3, 2], "lru", capacities)["hits"] == expected


def test_an_error_without_a_place_says_so():
    error = frazil.TraceError("a")
    assert error.file is None and error.place is None


def arrow_tables():
    columns = {"id": IDS, "size": [it % 7 + 1 for it in IDS], "op": ["get"] * len(IDS)}
    try:
        import pandas

        yield pandas.DataFrame(columns)
    except ImportError:
        pass
    try:
        import polars

        yield polars.DataFrame(columns)
        yield polars.concat([polars.DataFrame(columns)[:77], polars.DataFrame(columns)[77:]],
                            rechunk=False)
    except ImportError:
        pass
    try:
        import pyarrow

        yield pyarrow.table(columns)
        table = pyarrow.table(columns)
        yield pyarrow.concat_tables([table.slice(0, 0), table.slice(0, 501), table.slice(501)])
        yield table.to_reader(max_chunksize=100)
    except ImportError:
        pass


def test_arrow_streams_are_read():
    ids = {"id": IDS, "size": [it % 7 + 1 for it in IDS]}
    expected = frazil.simulate(ids, ["lru", "gdsf"], [50, 500], unit="bytes")
    tables = list(arrow_tables())
    if not tables:
        pytest.skip("NO pandas, polars or pyarrow: nothing compared")
    for table in tables:
        found = frazil.simulate(table, ["lru", "gdsf"], [50, 500], unit="bytes")
        assert found["misses"] == expected["misses"]
        assert found["byte_miss_ratio"] == expected["byte_miss_ratio"]


def test_arrow_names_of_any_layout():
    pyarrow = pytest.importorskip("pyarrow")
    names = [f"a rather long name of key {it}" if it % 2 else f"k{it}" for it in IDS]
    expected = frazil.simulate({"id": names}, "lru", 50)["misses"]
    for kind in (pyarrow.string(), pyarrow.large_string(), pyarrow.string_view()):
        column = pyarrow.array(["", *names], kind).slice(1)
        assert frazil.simulate(pyarrow.table({"key": column}), "lru", 50)["misses"] == expected
        both = pyarrow.chunked_array([column.slice(0, 9), column.slice(9)])
        assert frazil.simulate(both, "lru", 50)["misses"] == expected
    with pytest.raises(ValueError, match="missing values"):
        frazil.simulate(pyarrow.table({"id": [1, None, 3]}), "lru", 5)
    with pytest.raises(ValueError, match="dictionary-encoded"):
        frazil.simulate(pyarrow.table({"id": column.dictionary_encode()}), "lru", 5)
    with pytest.raises(ValueError, match="no column of ids among a, b"):
        frazil.simulate(pyarrow.table({"a": [1], "b": [2]}), "lru", 5)
    table = pyarrow.table({"a": [1, 2, 1], "b": [2, 2, 2]})
    assert frazil.simulate(table, "lru", 5, columns={"id": "b"})["misses"] == [1]


def test_times_operations_and_lifetimes():
    trace = {"id": [1, 1, 1, 1], "time": [0, 5, 20, 21], "op": ["get"] * 4, "ttl": [10] * 4}
    assert frazil.simulate(trace, "lru", 5)["expired"] == [1]
    trace["time"] = [0.0, 5.5, 9.9, 10.1]
    assert frazil.simulate(trace, "lru", 5)["expired"] == [1]
    trace["op"] = ["set", "get", "delete", "get"]
    row = frazil.simulate(trace, "lru", 5)[0]
    assert (row["requests"], row["hits"]) == (2, 1)
    trace["op"] = [1, 0, 2, 0]
    assert frazil.simulate(trace, "lru", 5)[0]["hits"] == 1
    info = frazil.trace_info({"id": [7, 8], "time": [3, 5], "size": [10, 20]})[0]
    assert (info["span_seconds"], info["footprint_bytes"], info["objects"]) == (2.0, 30, 2)


def test_latencies_are_a_column():
    trace = {"id": [1, 1, 2, 1, 1], "latency": [3, 1, 3, 1, 1]}
    row = frazil.simulate(trace, "lru", 2, fetch_latency="column")[0]
    assert (row["hits"], row["delayed_hits"], row["misses"]) == (2, 1, 2)
    assert row["latency_total"] == 3 + 2 + 3


@pytest.mark.parametrize("trace, problem", [
    (array.array("d", [1.0, 2.0]), "floating-point"),
    (array.array("q", [1, -1]), "-1, expected numbers that are not negative"),
    ([1, -1], "-1, expected whole numbers"),
    ([1, 2.5], "floating-point"),
    ({"id": [1, 2], "size": [1]}, "unequal lengths"),
    ({"id": [1, 2], "size": array.array("b", [1, -5])}, "-5"),
    ({"id": [1, 2], "op": [0, 3]}, "expected get, set or delete"),
    ({"id": [1, 2], "time": [0.5, float("nan")]}, "NaN"),
    ({"id": [1, 2], "colour": [1, 2]}, "expected one of id"),
    (array.array("q"), "without a record"),
    (memoryview(bytes(8)).cast("B", (2, 4)), "2 dimensions"),
    (memoryview(bytes(8)).cast("?"), "is no type of numbers"),
    ([1, None], "not of both, nor of None"),
    ([1, "a"], "not of both, nor of None"),
])
def test_bad_columns_are_value_errors(trace, problem):
    with pytest.raises(ValueError, match=problem):
        frazil.simulate(trace, "lru", 5)


def test_what_is_no_column_is_a_type_error():
    for trace in (5, None, object(), {"id": 5}, {"id": [1], "time": None}):
        with pytest.raises(TypeError, match="column (id|time): .*, expected numbers"):
            frazil.simulate(trace, "lru", 5)


def test_arrow_tables_of_odd_shapes():
    pyarrow = pytest.importorskip("pyarrow")
    for table in (pyarrow.table({}), {"id": pyarrow.table({})}):
        with pytest.raises(ValueError, match="no column of ids|without columns"):
            frazil.simulate(table, "lru", 5)
    rows = pyarrow.array([{"id": 1}, None, {"id": 3}])
    for source in (rows, pyarrow.chunked_array([rows])):
        with pytest.raises(ValueError, match="missing values"):
            frazil.simulate(source, "lru", 5)
    assert frazil.simulate(rows.slice(2), "lru", 5)["misses"] == [1]


def test_an_arrow_array_is_read_in_place():
    pyarrow = pytest.importorskip("pyarrow")
    array = pyarrow.array([0, *IDS, 0]).slice(1, len(IDS))
    assert frazil.simulate(array, "lru", 50)["misses"] == [naive_lru(IDS, 50)]
    assert frazil.simulate({"id": array, "size": array}, "lru", 50)["misses"] == [
        naive_lru(IDS, 50)]
    with pytest.raises(ValueError, match="missing values"):
        frazil.simulate(pyarrow.array([1, None]), "lru", 50)
    # Not by way of a list, which knows no timestamps.
    times = pyarrow.array([1, 2, 3], pyarrow.timestamp("us"))
    assert frazil.simulate({"id": [1, 2, 1], "time": times}, "lru", 5)["misses"] == [2]


def test_bad_options_are_value_errors():
    with pytest.raises(ValueError, match="did you mean `lru`"):
        frazil.simulate(IDS, "lruu", 5)
    with pytest.raises(ValueError, match='add unit="bytes"'):
        frazil.simulate(IDS, "lru", "64MiB")
    with pytest.raises(ValueError, match="^unexpected argument 'foo'$"):
        frazil.simulate(IDS, "lru", 5, foo=1)
    with pytest.raises(ValueError, match="^no trace is named$"):
        frazil.simulate([], "lru", 5)
    with pytest.raises(ValueError, match="unexpected argument 'warmupp'"):
        frazil.simulate(IDS, "lru", 5, warmupp=3)
    with pytest.raises(ValueError, match="time unit"):
        frazil.simulate({"id": [1], "time": [1]}, "lru", 5, time_unit="minutes")


def test_files_have_their_errors(tmp_path):
    with pytest.raises(FileNotFoundError) as raised:
        frazil.simulate(tmp_path / "none.csv", "lru", 5)
    assert raised.value.filename.endswith("none.csv")
    with pytest.raises(IsADirectoryError):
        frazil.simulate(tmp_path, "lru", 5)
    damaged = tmp_path / "damaged.csv"
    damaged.write_text("time,id,size\n0,1,10\n1,2,ten\n")
    with pytest.raises(frazil.TraceError) as raised:
        frazil.simulate(damaged, "lru", [5, 6])
    assert raised.value.file.endswith("damaged.csv") and raised.value.place == "line 3"
    assert "line 3" in str(raised.value)
    assert frazil.simulate(damaged, "lru", 5, skip_bad_rows=True)["requests"] == [1]
    cut = tmp_path / "cut.gz"
    import gzip

    cut.write_bytes(gzip.compress("\n".join(map(str, IDS)).encode())[:-20])
    with pytest.raises(frazil.TraceError, match="cut short after"):
        frazil.simulate(cut, "lru", 5)


def test_notes_and_names():
    table = frazil.simulate({"monday": [1, 2, 1], "sunday": [1, 1, 1]}, "lru", 5)
    assert table["trace"] == ["monday", "sunday"] and table["misses"] == [2, 1]
    lifetimes = {"id": [1, 1], "ttl": [5, 5]}
    assert "has no times" in frazil.simulate(lifetimes, "lru", 5).notes[0]


def test_the_other_verbs():
    curve = frazil.mrc(IDS, "lru,fifo", capacity=[1, 5, 20, 100, 400])
    ratios = curve.filter(policy="lru")["miss_ratio"]
    assert len(ratios) == 5 and ratios == sorted(ratios, reverse=True)
    advice = frazil.advise(IDS, policy=["lru", "sieve"], cores=2)
    assert advice[-1]["kind"] == "recommendation" and advice[-1]["cores"] == 2
    assert {row["kind"] for row in advice[:-1]} == {"cell"}


def test_a_table_speaks_arrow():
    rows = [{"a": 1, "b": "x", "c": None, "d": True, "e": [1]}, {"a": 2.5, "b": None, "d": False}]
    table = frazil.Table(rows)
    expected = {"a": [1.0, 2.5], "b": ["x", None], "c": [None] * 2, "d": [True, False],
                "e": ["[1]", None]}
    found = []
    try:
        import pyarrow

        found.append(pyarrow.table(table).to_pydict())
    except ImportError:
        pass
    try:
        import polars

        found.append(polars.DataFrame(table).to_dict(as_series=False))
    except ImportError:
        pass
    if not found:
        pytest.skip("NO pyarrow or polars: nothing compared")
    assert found == [expected] * len(found)
    # A capsule that nobody reads is released, and one can be read once.
    table.__arrow_c_stream__()
    large = frazil.Table([{"n": 2**64 - 1, "m": -1}] * 1000)
    stream = large.__arrow_c_stream__()
    del large, stream


def test_a_table_is_read_by_a_table():
    table = frazil.Table([{"id": it, "size": 2} for it in IDS[:3000]])
    expected = frazil.simulate({"id": IDS[:3000], "size": [2] * 3000}, "lru", 100, unit="bytes")
    assert frazil.simulate(table, "lru", 100, unit="bytes")["misses"] == expected["misses"]


def test_a_table_draws_itself():
    table = frazil.mrc(IDS, "lru,fifo", points=5)
    html = table._repr_html_()
    assert html.startswith("<svg") and html.count("<polyline") == 2 and "<td>fifo</td>" in html
    assert frazil.Table([{"a": "<b>"}])._repr_html_().count("&lt;b&gt;") == 1
    from xml.etree import ElementTree

    ElementTree.fromstring(table.to_svg())


def test_tables_go_to_numpy_and_pandas():
    table = frazil.simulate(IDS, "lru", [5, 50])
    numpy = pytest.importorskip("numpy")
    matrix = table.to_numpy()
    assert matrix["misses"].tolist() == table["misses"]
    assert numpy.isnan(matrix["byte_miss_ratio"]).all()
    pytest.importorskip("pandas")
    assert table.to_pandas()["capacity"].tolist() == [5, 50]


def test_progress_is_told():
    seen = []
    frazil.simulate(IDS, "lru", ["1%", "2%"], progress=lambda *told: seen.append(told))
    what, done, total = seen[-1]
    assert what == "replaying" and done == total == 2 * len(IDS)
    with pytest.raises(ZeroDivisionError):
        frazil.simulate(IDS, "lru", ["1%", "2%"], progress=lambda *told: 1 / 0)
    own = ValueError("no --flag of the command")

    def refuse(*_told):
        raise own

    with pytest.raises(ValueError, match="no --flag") as refused:
        frazil.simulate(IDS, "lru", ["1%", "2%"], progress=refuse)
    assert refused.value is own


def test_a_dict_of_columns_needs_ids():
    with pytest.raises(ValueError, match="columns 'size' without a column id"):
        frazil.simulate({"user": [1, 2, 1, 3], "size": [1, 2, 3, 4]}, "lru", 2)
    assert frazil.simulate({"user": [1, 2, 1, 3]}, "lru", 2)["trace"] == ["user"]


LONG = "zipf:0.8:objects=1M:requests=4G"


@pytest.mark.parametrize("policy, capacity", [("lru", "100K"), ("lru", "1%"), ("lrb", "1K")])
def test_ctrl_c_stops_at_once(policy, capacity):
    code = f"""
import frazil, signal, time
# A shell has its background processes ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
print("begun", flush=True)
try:
    frazil.simulate({LONG!r}, {policy!r}, {capacity!r})
except KeyboardInterrupt:
    print(time.time(), flush=True)
"""

    def interrupt():
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        try:
            assert child.stdout.readline() == "begun\n"
            time.sleep(0.4)
            sent = time.time()
            child.send_signal(signal.SIGINT)
            return float(child.communicate(timeout=PATIENCE)[0]) - sent
        finally:
            child.kill()
            child.wait()

    # In one of several, because a machine at work may hold any one up.
    assert any(interrupt() < 0.2 for _ in range(20))


def test_other_threads_go_on():
    turns, stop = [0], threading.Event()

    def spin():
        while not stop.is_set():
            turns[0] += 1

    thread = threading.Thread(target=spin)
    thread.start()
    try:
        before = turns[0]
        frazil.simulate("zipf:1.0:objects=100K:requests=3M", "lru", ["1%", "10%"])
        assert turns[0] - before > 1_000
    finally:
        stop.set()
        thread.join()


def test_imports_without_numpy_pandas_pyarrow_or_ray():
    # Nor what takes long of the standard library.
    slow = ["numpy", "pandas", "pyarrow", "ray", "asyncio", "inspect", "subprocess"]
    code = f"import frazil, sys; print(sorted(set({slow}) & set(sys.modules)))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert told.stdout == "[]\n"


def test_examples_in_docstrings():
    import doctest

    for module in (sys.modules[name] for name in ("frazil.replay", "frazil.table", "frazil.sweeps")):
        result = doctest.testmod(module)
        assert result.attempted > 0 and result.failed == 0
