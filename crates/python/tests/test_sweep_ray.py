"""Sweeps on a Ray cluster of two nodes on this machine: `pytest -m ray`."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

import frazil
from patience import PATIENCE, until
from test_simulate import TRACES as FOLDER

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
ray = pytest.importorskip("ray", reason="NO ray: no cluster tried")

pytestmark = pytest.mark.ray

FILES = ("lirs/multi1.trace.gz", "cache2k/web12.trace.xz", "adaptsize/request.trace.xz")
GENERATED = [f"zipf:1.0:objects=10K:requests=300K:seed={seed}" for seed in range(1, 7)]
TRACES = [*(str(FOLDER / file) for file in FILES if (FOLDER / file).exists()), *GENERATED][:6]
POLICIES = ["lru", "fifo", "sieve", "s3-fifo", "mobius", "random", "belady", "lhd"]
CAPACITIES = ["0.5%", "1%", "2%", "5%", "10%", "20%"]
CELLS = len(TRACES) * len(POLICIES) * len(CAPACITIES)


def started():
    """A cluster of one node. Ray gives it half a minute, which a machine at work may exceed."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "include_dashboard": False}
    for attempt in range(4):
        try:
            return Cluster(initialize_head=True, head_node_args=head)
        except Exception as error:
            if attempt == 3 or "timed out during startup" not in str(error):
                raise
            # What was begun would run until the tests end, and take time from the next attempt.
            subprocess.run(["pkill", "-KILL", "-P", str(os.getpid())])


@pytest.fixture
def cluster():
    cluster = started()
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture(scope="module")
def local():
    """The rows of the sweep on this machine."""
    table = frazil.sweep(TRACES, POLICIES, CAPACITIES, seeds=[7])
    assert len(table) == CELLS == 288 and table["error"] == [None] * CELLS
    return table


def test_equals_the_local_sweep(cluster, local):
    cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    table = frazil.sweep(TRACES, POLICIES, CAPACITIES, seeds=[7], cluster=cluster.address)
    assert table == local and len(table.stats["decoded"]) == 2
    assert not ray.is_initialized(), "the connection was made here, and ended"
    for traces in table.stats["decoded"].values():
        assert len(traces) == len(set(traces)), "each at most once a node"
    ray.init(cluster.address, log_to_driver=False)
    ids = {"mine": [it * it % 997 for it in range(9999)]}
    assert frazil.sweep(ids, "lru,fifo", [5, 50], cluster="ray") == frazil.sweep(
        ids, "lru,fifo", [5, 50])
    assert ray.is_initialized(), "the connection is the caller's"
    with pytest.raises(ConnectionError, match="is connected to Ray at"):
        frazil.sweep(ids, "lru", 5, cluster="127.0.0.1:1")


def test_a_node_is_killed_half_way(cluster, local):
    second = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    killed = []

    def kill(what, done, total):
        if done >= total // 2 and not killed:
            killed.append(threading.Thread(target=cluster.remove_node, args=(second, False)))
            killed[0].start()

    table = frazil.sweep(TRACES, POLICIES, CAPACITIES, seeds=[7], cluster=cluster.address,
                         progress=kill)
    killed[0].join()
    assert table == local


def test_a_driver_is_killed_and_begun_again(cluster, local, tmp_path):
    pytest.importorskip("pyarrow")
    cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    code = (f"import frazil; frazil.sweep({TRACES!r}, {POLICIES!r}, {CAPACITIES!r}, seeds=[7],"
            f" cluster={cluster.address!r}, out={str(tmp_path)!r})")
    driver = subprocess.Popen([sys.executable, "-c", code])

    def finished():
        return {file: file.stat().st_mtime_ns for file in tmp_path.glob("*.parquet")}

    # Ray and half of the sweep.
    until(lambda: len(finished()) >= CELLS // 2 or driver.poll() is not None, 5 * PATIENCE)
    driver.kill()
    assert driver.wait() == -signal.SIGKILL
    before = finished()
    table = frazil.sweep(TRACES, POLICIES, CAPACITIES, seeds=[7], cluster=cluster.address,
                         out=tmp_path)
    assert table == local and len(finished()) == CELLS
    assert (table.stats["kept"], table.stats["replayed"]) == (len(before), CELLS - len(before))
    assert {file: finished()[file] for file in before} == before, "no finished cell is done again"


def test_a_node_of_another_version_is_named(cluster, tmp_path):
    other = tmp_path / "frazil"
    other.mkdir()
    (other / "__init__.py").write_text("__version__ = '0.0.9'\n")
    (other / "node.py").write_text("class Node: pass\n")
    cluster.add_node(num_cpus=1, env_vars={"PYTHONPATH": str(tmp_path)})
    cluster.wait_for_nodes()
    begun = time.time()
    with pytest.raises(RuntimeError, match=r"node .* has frazil 0.0.9, this program has 0.1.0"):
        frazil.sweep(TRACES, POLICIES, CAPACITIES, cluster=cluster.address)
    assert time.time() - begun < 60


def test_a_node_without_the_package_is_named(cluster, tmp_path):
    (tmp_path / "frazil").mkdir()
    (tmp_path / "frazil" / "__init__.py").write_text("raise ImportError('no such package')\n")
    cluster.add_node(num_cpus=1, env_vars={"PYTHONPATH": str(tmp_path)})
    cluster.wait_for_nodes()
    with pytest.raises(RuntimeError, match="node .* has no package frazil"):
        frazil.sweep(TRACES, POLICIES, CAPACITIES, cluster=cluster.address)


def test_a_cluster_that_does_not_answer_is_named():
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen(5)
        for address in ("127.0.0.1:1", f"127.0.0.1:{mute.getsockname()[1]}"):
            begun = time.time()
            with pytest.raises(ConnectionError, match=address):
                frazil.sweep(TRACES, POLICIES, CAPACITIES, cluster=address)
            assert time.time() - begun < 10
    with pytest.raises(ValueError, match="HOST:PORT"):
        frazil.sweep(TRACES, POLICIES, CAPACITIES, cluster="nowhere")
