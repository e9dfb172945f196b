"""Compares a sweep on this machine with one on a Ray cluster of two nodes of one core: processor time.

    python benches/sweep.py [--rounds 5] [--large]

Prints a table in Markdown, and writes nothing. Six traces, eight policies, six sizes; medians of
rounds in turns, in seconds. Ray's own daemons are not counted.
"""

import argparse
import os
import resource
import statistics
import sys
import time

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import frazil
import frazil.cluster

# Exponent, objects, and requests in thousands.
TRACES = ((1.0, 50, 1000), (0.8, 100, 1000), (1.2, 20, 500), (0.9, 30, 300), (0.7, 10, 200), (1.1, 10, 100))
POLICIES = ["lru", "fifo", "sieve", "s3-fifo", "mobius", "arc", "lhd", "w-tinylfu"]
CAPACITIES = ["0.1%", "0.5%", "1%", "5%", "10%", "20%"]


def of_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def local(traces):
    """Processor times of driver and worker, and the rows."""
    driver, worker = time.process_time(), of_children()
    table = frazil.sweep(traces, POLICIES, CAPACITIES, workers=2)
    return time.process_time() - driver, of_children() - worker, table


def of_actors():
    """Processor time of the actors that live."""
    ticks = 0
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{process}/cmdline") as file:
                if not file.read().startswith("ray::FrazilNode"):
                    continue
            with open(f"/proc/{process}/stat") as file:
                ticks += sum(map(int, file.read().rsplit(")", 1)[1].split()[11:13]))
        except OSError:
            continue  # It has ended.
    return ticks / os.sysconf("SC_CLK_TCK")


def on_cluster(traces, address):
    """The same on a cluster."""
    worker = []

    class Nodes(frazil.cluster.RayNodes):
        def close(self):
            worker.append(of_actors())
            super().close()

    plain, frazil.cluster.RayNodes = frazil.cluster.RayNodes, Nodes
    driver = time.process_time()
    table = frazil.sweep(traces, POLICIES, CAPACITIES, cluster=address)
    frazil.cluster.RayNodes = plain
    return time.process_time() - driver, worker[0], table


def of_idle_actors(ray, address):
    """Processor time of two actors that have nothing to do."""
    class Idle:
        def spent(self):
            return time.process_time()

    ray.init(address, log_to_driver=False, logging_level="ERROR")
    actors = [ray.remote(Idle).options(num_cpus=1).remote() for _ in range(2)]
    spent = sum(ray.get([actor.spent.remote() for actor in actors]))
    ray.shutdown()
    return spent


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--large", action="store_true", help="with five times as many requests")
    arguments = parser.parse_args()
    import ray
    from ray.cluster_utils import Cluster

    scale = 5 if arguments.large else 1
    traces = [f"zipf:{exponent}:objects={objects}K:requests={requests * scale}K:seed=1"
              for exponent, objects, requests in TRACES]
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    here, there, idle = [], [], []
    try:
        for _ in range(arguments.rounds):
            *spent, expected = local(traces)
            here.append(spent)
            *spent, table = on_cluster(traces, cluster.address)
            there.append(spent)
            if table != expected:
                sys.exit("the rows differ")
            idle.append(of_idle_actors(ray, cluster.address))
    finally:
        cluster.shutdown()
    print(f"Python {sys.version.split()[0]}, Ray {ray.__version__}; medians of {arguments.rounds} rounds;"
          f" {sum(requests for *_, requests in TRACES) * scale / 1000:.1f} million requests\n")
    print("| processor time, s | driver | workers | sum |")
    print("|---" * 4 + "|")
    sums = []
    for name, rounds in (("this machine", here), ("two Ray nodes", there)):
        driver, worker = (statistics.median(times) for times in zip(*rounds))
        sums.append(driver + worker)
        print(f"| {name} | {driver:.2f} | {worker:.2f} | {sums[-1]:.2f} |")
    print(f"| two Ray actors that do nothing | | {statistics.median(idle):.2f} | |")
    print(f"\nTwo Ray nodes ÷ this machine: {sums[1] / sums[0]:.2f}.")


if __name__ == "__main__":
    main()
