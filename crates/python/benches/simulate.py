"""Measures replays: memory beside an array, time beside the command's, and the pace of other threads.

    python benches/simulate.py [--rounds 5] [--command FILE --trace FILE...]

Prints tables in Markdown, and writes nothing. Memory is the most that is resident during a replay of
ten million ids, in a process of its own, less what was before it. With `--command` it compares the
processor time of the command and of the package in processes of their own, in turns.
"""

import argparse
import ctypes
import gc
import json
import os
import resource
import statistics
import subprocess
import sys
import threading
import time

import frazil

REQUESTS = 10_000_000
# Objects, how often each is asked for, bits of an id, policies, and capacities.
ARRAYS = (
    (100_000, "skewed", 32, "lru", ["10%"]),
    (1_000_000, "skewed", 32, "lru", ["10%"]),
    (1_000_000, "equally", 32, "lru", ["10%"]),
    (1_000_000, "equally", 64, "lru", ["10%"]),
    (1_000_000, "equally", 32, "lru", ["10%", "20%"]),
    (1_000_000, "equally", 32, "lru,s3-fifo,mobius", ["10%"]),
    (1_000_000, "equally", 32, "lru", [100_000]),
)


def ids_of(objects, asked, bits):
    import numpy

    random = numpy.random.default_rng(1)
    if asked == "equally":
        ids = random.integers(0, objects, REQUESTS, dtype=numpy.uint32)
    else:
        ids = random.random(REQUESTS, dtype=numpy.float32)
        ids *= numpy.float32(numpy.log(objects))
        ids = numpy.exp(ids, out=ids).astype(numpy.uint32)
    return ids if bits == 32 else ids.astype(numpy.uint64) * numpy.uint64(0x9E3779B97F4A7C15)


def resident(line):
    with open("/proc/self/status") as file:
        for text in file:
            if text.startswith(line):
                return int(text.split()[1]) * 1024
    return 0


def bytes_a_request(objects, asked, bits, policies, capacities):
    ids = ids_of(objects, asked, bits)
    frazil.simulate(ids[:1000], policies, 10)
    gc.collect()
    # What was freed until now is not to serve the replay.
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before = resident("VmRSS")
    frazil.simulate(ids, policies, capacities)
    return (resident("VmHWM") - before) / len(ids)


def memory():
    print("| objects | asked for | bits of an id | policies | capacities | bytes a request |")
    print("|---" * 6 + "|")
    for number, (objects, asked, bits, policies, capacities) in enumerate(ARRAYS):
        told = subprocess.run([sys.executable, __file__, "--array", str(number)],
                              stdout=subprocess.PIPE, check=True, text=True)
        sizes = ", ".join(map(str, capacities))
        print(f"| {objects:,} | {asked} | {bits} | {policies} | {sizes} | {float(told.stdout):.1f} |")


def processor_time(words):
    """Of a process, and of a replay within it if it prints that."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    told = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True,
                          text=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, told


def beside_command(command, traces, rounds):
    print("| trace | command, s | `frazil.simulate`, s | command ÷ package |")
    print("|---" * 4 + "|")
    policies, capacities = "lru,sieve,mobius,s3-fifo", "1%,10%"
    program = ("import frazil, json, sys, time; begun = time.process_time();"
               f"rows = frazil.simulate(sys.argv[1], '{policies}', '{capacities}');"
               "print(json.dumps([time.process_time() - begun, rows['misses']]))")
    for trace in traces:
        words = [command, "simulate", trace, f"--policy={policies}", f"--capacity={capacities}"]
        spent = {"command": [], "package": []}
        for _ in range(rounds):
            took, told = processor_time([*words, "--output=json"])
            misses = [json.loads(line)["misses"] for line in told.splitlines()]
            spent["command"].append(took)
            took, same = json.loads(processor_time([sys.executable, "-c", program, trace])[1])
            if same != misses:
                sys.exit(f"{trace}: misses {same}, the command has {misses}")
            spent["package"].append(took)
        one, other = (statistics.median(times) for times in spent.values())
        name = os.path.basename(trace)
        print(f"| {name} | {one:.3f} | {other:.3f} | {one / other:.2f} |", flush=True)


def pace(rounds):
    """The turns of a Python thread in a second, alone and beside a replay."""
    def turns(until):
        count = 0
        while not until():
            count += 1
        return count

    alone, beside = [], []
    for _ in range(rounds):
        end = time.monotonic() + 1
        alone.append(turns(lambda: time.monotonic() > end))
        replay = threading.Thread(target=frazil.simulate, args=(
            "zipf:1.0:objects=1M:requests=20M", ["lru", "s3-fifo", "lhd"], ["1%", "10%"]))
        replay.start()
        time.sleep(0.2)
        end = time.monotonic() + 1
        beside.append(turns(lambda: time.monotonic() > end))
        assert replay.is_alive(), "the replay was too short"
        replay.join()
    one, other = statistics.median(alone), statistics.median(beside)
    print("| turns of a Python thread | in a second |")
    print("|---|---|")
    print(f"| alone | {one:,.0f} |")
    print(f"| beside a replay | {other:,.0f} ({other / one:.0%}) |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--command", help="the command `frazil`, to compare with")
    parser.add_argument("--trace", action="append", default=[], help="a trace for both")
    parser.add_argument("--array", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.array is not None:
        print(bytes_a_request(*ARRAYS[arguments.array]))
        return
    print(f"Python {sys.version.split()[0]}; ten million ids, the most resident memory\n")
    memory()
    print(f"\nThe median of {arguments.rounds} rounds\n")
    pace(arguments.rounds)
    if arguments.command:
        print("\nProcessor time\n")
        beside_command(arguments.command, arguments.trace, arguments.rounds)


if __name__ == "__main__":
    main()
