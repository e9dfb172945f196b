"""Sweeps on this machine: values, rows that are kept, workers that die, cells that fail."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import pytest

import frazil
from frazil import cluster
from patience import PATIENCE, until

TRACES = ["zipf:1.0:objects=1K:requests=30K", "mix:objects=1K:requests=30K:seed=4"]
POLICIES, CAPACITIES = ["lru", "random", "belady", "s3-fifo"], ["1%", 50, "20%"]


def small(**options):
    return frazil.sweep(TRACES, POLICIES, CAPACITIES, workers=2, **options)


def rows_of_simulate():
    rows = frazil.simulate(TRACES, POLICIES, CAPACITIES).to_dicts()
    for row in rows:
        del row["requests_per_second"]
    return rows


def test_rows_and_order_are_those_of_simulate():
    table = small()
    assert table.stats["replayed"] == len(table) == 24 and table.stats["kept"] == 0
    assert sorted(table.stats["decoded"]["local"]) == sorted(TRACES), "each once"
    expected = rows_of_simulate()
    for row, of_simulate in zip(table, expected, strict=True):
        assert {name: row[name] for name in of_simulate} == of_simulate
        assert row["error"] is None and row["seed"] is None
    assert table["capacity_given"][:3] == ["1%", "50", "20%"]


def test_one_core_gives_the_same():
    assert frazil.sweep(TRACES, POLICIES, CAPACITIES, workers=1) == small()


def test_seeds_are_for_policies_that_draw():
    table = frazil.sweep(TRACES[0], "lru,random,lhd", 50, seeds=[1, 2, 3], workers=1)
    assert list(zip(table["policy"], table["seed"])) == [
        ("lru", None), ("random", 1), ("random", 2), ("random", 3),
        ("lhd", 1), ("lhd", 2), ("lhd", 3),
    ]
    assert len(set(table.filter(policy="random")["misses"])) > 1
    alone = frazil.simulate(TRACES[0], "random:seed=2", 50)["misses"]
    assert table.filter(policy="random", seed=2)["misses"] == alone


def test_any_sequence_will_do():
    numpy = pytest.importorskip("numpy")
    one = frazil.sweep(TRACES[0], ["random"], [1, 2], seeds=[0, 1], workers=1)
    for capacities, seeds in [
        (range(1, 3), range(2)),
        (numpy.arange(1, 3), numpy.arange(2)),
        (iter([1, 2]), {0: "a", 1: "b"}.keys()),
    ]:
        assert frazil.sweep(TRACES[0], ("random",), capacities, seeds=seeds, workers=1) == one
    assert frazil.sweep(TRACES[0], "random", 1, seeds=numpy.int64(1), workers=1)["seed"] == [1]


def test_arrays_and_files(tmp_path):
    ids = [it * it % 101 for it in range(5000)]
    file = tmp_path / "ids.txt"
    file.write_text("\n".join(map(str, ids)))
    table = frazil.sweep([str(file), {"id": ids}], "lru,fifo", [5, 50], workers=1)
    assert table["misses"][:4] == table["misses"][4:]
    assert table["trace"] == [str(file)] * 4 + ["memory"] * 4
    options = {"size": [it % 3 + 1 for it in ids], "id": ids}
    bytes_ = frazil.sweep({"mine": options}, "lru", "64B", unit="bytes", workers=1)
    assert bytes_["misses"] == frazil.simulate(options, "lru", "64B", unit="bytes")["misses"]
    assert bytes_["trace"] == ["mine"]


def test_a_cell_that_fails_is_a_row():
    traces = ["/no/such/file", "nonsense:objects=5", TRACES[0]]
    table = frazil.sweep(traces, "lru", ["1%", 10], workers=1)
    assert [str(error).split(":")[0] for error in table["error"]] == [
        "FileNotFoundError", "FileNotFoundError", "FileNotFoundError", "FileNotFoundError",
        "None", "None",
    ]
    assert table["misses"][:4] == [None] * 4 and table["misses"][4] > 0
    assert table["trace"][0] == "/no/such/file" and table["policy"][0] == "lru"


def test_errors_of_cells_are_in_pythons_terms():
    table = frazil.sweep([1, 2, 1], "lru", 1, fetch_latency="10ms", clock="trace", workers=1)
    assert table["error"][0].startswith("ValueError") and "--" not in table["error"][0]


def test_what_makes_no_sense_fails_at_once():
    with pytest.raises(ValueError, match="did you mean `sieve`"):
        frazil.sweep(TRACES, ["lru", "seive"], 10)
    with pytest.raises(ValueError, match="threads"):
        frazil.sweep(TRACES, "lru", 10, threads=2)
    with pytest.raises(ValueError, match="two traces of one name"):
        frazil.sweep(TRACES[:1] * 2, "lru", 10)
    with pytest.raises(ValueError, match="unequal lengths"):
        frazil.sweep({"id": [1, 2], "size": [1]}, "lru", 10)
    with pytest.raises(ValueError, match="unexpected argument 'warmupp'"):
        frazil.sweep(TRACES, "lru", 10, warmupp=3)
    with pytest.raises(ValueError, match="invalid value 'x'"):
        frazil.sweep(TRACES, "lru", 10, unit="x")
    for capacity in (-1, 0, "x", "101%", "64MiB", 1.5, 2**70, [10, "y"]):
        with pytest.raises(ValueError, match="capacity") as raised:
            frazil.sweep(TRACES, "lru", capacity)
        assert "--" not in str(raised.value)
        assert capacity != "64MiB" or str(raised.value).endswith('add unit="bytes"')
    for workers in (0, -1, 1.5, "2"):
        with pytest.raises(ValueError, match="workers"):
            frazil.sweep(TRACES, "lru", 10, workers=workers)
    for seed in (-1, 2**64, 1.5, "a"):
        with pytest.raises(ValueError, match="seeds"):
            frazil.sweep(TRACES, "random", 10, seeds=[1, seed])


def test_rows_are_kept_and_only_what_is_missing_is_done(tmp_path):
    pytest.importorskip("pyarrow")
    first = small(out=tmp_path)
    files = sorted(tmp_path.glob("*"))
    assert len(files) == 24 and all(file.suffix == ".parquet" for file in files)
    again = small(out=tmp_path)
    assert again == first and (again.stats["kept"], again.stats["replayed"]) == (24, 0)
    files[3].unlink()
    more = frazil.sweep(TRACES, [*POLICIES, "fifo"], CAPACITIES, workers=2, out=tmp_path)
    assert (more.stats["kept"], more.stats["replayed"]) == (23, 7)
    assert [row for row in more if row["policy"] != "fifo"] == first.to_dicts()
    import pyarrow.parquet

    read = pyarrow.parquet.read_table(tmp_path)
    assert read.num_rows == 30
    warm = small(out=tmp_path, warmup=5)
    assert warm.stats["kept"] == 0, "another option, other cells"


def test_a_changed_file_is_done_again(tmp_path):
    pytest.importorskip("pyarrow")
    file, out = tmp_path / "ids.txt", tmp_path / "rows"
    file.write_text("1\n2\n1\n")
    assert frazil.sweep(str(file), "lru", 5, out=out, workers=1)["misses"] == [2]
    file.write_text("1\n2\n3\n4\n")
    assert frazil.sweep(str(file), "lru", 5, out=out, workers=1)["misses"] == [4]
    ids = {"mine": [1, 2, 3]}
    assert frazil.sweep(ids, "lru", 5, out=out, workers=1).stats["replayed"] == 1
    assert frazil.sweep(ids, "lru", 5, out=out, workers=1).stats["replayed"] == 0
    assert frazil.sweep({"mine": [1, 2, 4]}, "lru", 5, out=out, workers=1).stats["replayed"] == 1


@pytest.mark.parametrize("damage", ["cut", "bytes", "empty", "swapped"])
def test_damaged_rows_are_done_again_and_said(tmp_path, damage):
    pytest.importorskip("pyarrow")
    first = small(out=tmp_path)
    one, other = sorted(tmp_path.glob("*"))[:2]
    content = one.read_bytes()
    one.write_bytes({
        "cut": content[:-9], "bytes": content[:40] + b"\xff" * 40 + content[80:], "empty": b"",
        "swapped": other.read_bytes(),
    }[damage])
    with pytest.warns(UserWarning, match=f"{one.name}: damaged") as warned:
        again = small(out=tmp_path)
    assert again == first and again.stats["replayed"] == 1
    assert len(warned) == 1 and one.name in again.notes[0]
    assert small(out=tmp_path).stats["replayed"] == 0


def test_any_bit_that_changed_in_a_kept_row_is_noticed(tmp_path):
    pytest.importorskip("pyarrow")
    from frazil.rowfiles import RowFiles

    frazil.sweep(TRACES[0], "lru", 50, out=tmp_path, workers=1)
    (file,) = tmp_path.glob("*")
    key, content = file.stem.removeprefix("cell-"), file.read_bytes()
    assert RowFiles(tmp_path).read(key) is not None
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        file.write_bytes(damaged)
        with pytest.warns(UserWarning, match="damaged"):
            assert RowFiles(tmp_path).read(key) is None


def test_a_damaged_row_is_told_at_the_call(tmp_path):
    pytest.importorskip("pyarrow")
    small(out=tmp_path)
    next(tmp_path.glob("*")).write_bytes(b"")
    with pytest.warns(UserWarning, match="damaged") as warned:
        frazil.sweep(TRACES, POLICIES, CAPACITIES, workers=2, out=tmp_path)
    assert warned[0].filename == __file__


def test_failed_cells_are_done_again(tmp_path):
    pytest.importorskip("pyarrow")
    file, out = tmp_path / "trace.csv", tmp_path / "rows"
    file.write_text("time,id,size\n0,1,ten\n")
    about = file.stat()
    failed = frazil.sweep(str(file), "lru", 5, out=out, workers=1)
    assert "TraceError" in failed["error"][0] and len(list(out.glob("*.parquet"))) == 1
    file.write_text("time,id,size\n0,1,010\n")
    # By all that a sweep sees it is the same file.
    os.utime(file, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert frazil.sweep(str(file), "lru", 5, out=out, workers=1)["error"] == [None]
    assert frazil.sweep(str(file), "lru", 5, out=out, workers=1).stats["replayed"] == 0


def test_without_pyarrow_it_is_said(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match="pip install pyarrow"):
        small(out=tmp_path)


def workers_of(parent):
    """Without pgrep, which hangs beside AddressSanitizer's library."""
    workers = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            begun_by = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1]
            if int(begun_by) == parent and b"frazil.node" in Path(f"/proc/{pid}/cmdline").read_bytes():
                workers.append(int(pid))
        except OSError:
            continue  # It has ended.
    return workers


def test_cells_of_a_worker_that_dies_are_done_again():
    traces = [f"zipf:1.0:objects=10K:requests=1M:seed={seed}" for seed in (1, 2)]
    policies = ["lru", "lhd", "hyperbolic"]
    killed = []

    def kill(what, done, total):
        if not killed:
            killed.extend(workers_of(os.getpid()))
            for pid in killed:
                os.kill(pid, signal.SIGKILL)

    table = frazil.sweep(traces, policies, ["1%", "10%"], workers=2, progress=kill)
    assert killed and table["error"] == [None] * 12
    assert table["misses"] == frazil.simulate(traces, policies, ["1%", "10%"])["misses"]


def test_a_driver_that_was_killed_goes_on(tmp_path):
    pytest.importorskip("pyarrow")
    arguments = f"{TRACES!r}, ['lru', 'lhd', 'lrb'], ['1%', '10%', '30%']"
    code = f"import frazil; frazil.sweep({arguments}, workers=1, out={str(tmp_path)!r})"
    driver = subprocess.Popen([sys.executable, "-c", code])
    until(lambda: len(list(tmp_path.glob("*.parquet"))) >= 3 or driver.poll() is not None, 5 * PATIENCE)
    workers = workers_of(driver.pid)
    driver.kill()
    driver.wait()
    finished = len(list(tmp_path.glob("*.parquet")))
    table = frazil.sweep(TRACES, ["lru", "lhd", "lrb"], ["1%", "10%", "30%"], workers=1,
                         out=tmp_path)
    assert table.stats["kept"] == finished >= 3
    assert table.stats["kept"] + table.stats["replayed"] == 18
    # It leaves no worker behind.
    until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in workers))


SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


@contextlib.contextmanager
def answering(answer, pause=0):
    """The address of a server that says this, with a pause between two bytes."""
    ended = threading.Event()

    def serve():
        with contextlib.suppress(OSError), server.accept()[0] as stream:
            stream.recv(100)
            for byte in answer:
                stream.sendall(bytes([byte]))
                time.sleep(pause)
            if answer:
                ended.wait(PATIENCE)

    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        ended.set()


def ray_with(init):
    return types.SimpleNamespace(is_initialized=lambda: False, init=lambda *_, **__: init())


@pytest.mark.parametrize("answer, pause, patience, error", [
    (SETTINGS[:3], 0, 0.2, "within 0.2 s"),
    (SETTINGS, 0.1, 0.2, "within 0.2 s"),
    (b"", 0, PATIENCE, "what answers does not speak HTTP/2"),
    (b"HTTP/1.1 400 Bad Request", 0, PATIENCE, "what answers does not speak HTTP/2"),
])  # fmt: skip
def test_ray_does_not_wait_where_no_cluster_answers(monkeypatch, answer, pause, patience, error):
    monkeypatch.setattr(cluster, "PATIENCE_S", patience)
    asked = []
    with answering(answer, pause) as address:
        with pytest.raises(ConnectionError, match=f"{address}.* {error}"):
            cluster._connect(ray_with(lambda: asked.append(1)), address, time.monotonic())
    assert not asked


def test_a_cluster_that_answers_has_longer(monkeypatch):
    monkeypatch.setattr(cluster, "PATIENCE_S", PATIENCE)
    with answering(SETTINGS) as address:
        assert cluster._connect(ray_with(int), address, time.monotonic())
    monkeypatch.setattr(cluster, "ANSWERING_S", 0.01)
    with answering(SETTINGS) as address:
        with pytest.raises(ConnectionError, match=f"{address} within 0.01 s"):
            hung = ray_with(lambda: time.sleep(PATIENCE))
            cluster._connect(hung, address, time.monotonic())
    with answering(SETTINGS) as address:
        monkeypatch.setattr(cluster, "ANSWERING_S", PATIENCE)
        with pytest.raises(ConnectionError, match=f"{address}: division by zero"):
            cluster._connect(ray_with(lambda: 1 / 0), address, time.monotonic())


def test_an_encrypted_cluster_is_left_to_ray(monkeypatch):
    monkeypatch.setattr(cluster, "PATIENCE_S", PATIENCE)
    monkeypatch.setenv("RAY_USE_TLS", "1")
    assert cluster._connect(ray_with(int), "127.0.0.1:1", time.monotonic())


def test_progress_is_told():
    seen = []
    small(progress=lambda *told: seen.append(told))
    assert seen == [("cells", done, 24) for done in range(1, 25)]


def test_short_cells_are_handed_out_together():
    from types import SimpleNamespace

    from frazil.sweeps import _Board

    def cell(cost, deaths=0):
        return SimpleNamespace(trace="some", cost=cost * 1e6, deaths=deaths)

    sources = {"some": SimpleNamespace(requests=0)}
    board = _Board([cell(cost) for cost in (9, 4, 4, 3, 2, 1, 1)], sources)
    handed = []
    while some := board.take("here"):
        handed.append([round(it.cost / 1e6) for it in some])
    assert handed == [[9], [4, 4], [3, 2, 1, 1]]
    # What may have killed its worker takes no others with it.
    board = _Board([cell(3), cell(2, deaths=1), cell(1), cell(1)], sources)
    handed = [len(board.take("here")) for _ in range(4)]
    assert handed == [1, 1, 2, 0]
