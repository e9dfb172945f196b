"""Compares caches for Python: processor time of one thread, in rounds that take turns.

    python benches/cache.py [--rounds 15] [--only frazil,cachebox] [--threads]

Prints a table in Markdown, and writes nothing. Sides that are not installed are left out. A figure
is the median of its rounds, in millions of operations a second of processor time.
"""

import argparse
import functools
import gc
import itertools
import random
import statistics
import sys
import threading
import time

HOT = 1_000
CACHED = 10_000
KEYS = 100_000


def sides():
    """Makers of caches with `[]`, by name."""
    found = {}
    import frazil

    found["frazil"] = frazil.Cache
    try:
        import cachebox

        found["cachebox"] = cachebox.LRUCache
    except ImportError:
        pass
    try:
        import lru

        found["lru-dict"] = lru.LRU
    except ImportError:
        pass
    try:
        import cachetools

        found["cachetools"] = cachetools.LRUCache
    except ImportError:
        pass
    try:
        import moka_py

        class Moka:
            def __init__(self, size):
                moka = moka_py.Moka(size)
                self.get, self.set = moka.get, moka.set

        found["moka-py"] = Moka
    except ImportError:
        pass
    try:
        import theine

        class Theine:
            def __init__(self, size):
                cache = theine.Cache(size)
                self.get = lambda key: cache.get(key)[0]
                self.set = cache.set

        found["theine"] = Theine
    except ImportError:
        pass
    return found


def zipf(count, seed=1):
    """Keys of Zipf's law with exponent 1."""
    weights = list(itertools.accumulate(1 / rank for rank in range(1, KEYS + 1)))
    keys = list(range(KEYS))
    rng = random.Random(seed)
    rng.shuffle(keys)
    return rng.choices(keys, cum_weights=weights, k=count)


def call_all(cache, keys):
    """Looks up by a method taken once, so that the interpreter counts no reference to the cache."""
    get = cache.get
    for key in keys:
        get(key)


def get_all(cache, keys):
    if hasattr(cache, "set"):
        call_all(cache, keys)
    else:
        for key in keys:
            cache[key]


def set_all(cache, keys):
    if hasattr(cache, "set"):
        set_one = cache.set
        for key in keys:
            set_one(key, key)
    else:
        for key in keys:
            cache[key] = key


def get_or_insert_all(cache, keys):
    get = cache.get
    misses = 0
    if hasattr(cache, "set"):
        set_one = cache.set
        for key in keys:
            if get(key) is None:
                set_one(key, key)
                misses += 1
    else:
        for key in keys:
            if get(key) is None:
                cache[key] = key
                misses += 1
    return 1 - misses / len(keys)


def functools_all(cached, keys):
    for key in keys:
        cached(key)


def timed(work, *arguments):
    gc.collect()
    gc.disable()
    before = time.process_time()
    result = work(*arguments)
    spent = time.process_time() - before
    gc.enable()
    return spent, result


def measure(rounds, makers):
    """Rates by side and measurement."""
    hot = [str(key) for key in range(HOT)] * 200
    numbers = list(range(1000, 1000 + HOT)) * 200
    requests = zipf(300_000)
    fresh = list(range(10**6, 10**6 + 300_000))
    rates, hits = {}, {}
    prepared = {}
    for name, make in makers.items():
        cache, other = make(HOT), make(HOT)
        set_all(cache, hot[:HOT])
        set_all(other, numbers[:HOT])
        prepared[name] = cache, other
    lru = functools.lru_cache(HOT)(lambda key: key)
    for _ in range(rounds):
        for name, make in makers.items():
            cache, other = prepared[name]
            row = rates.setdefault(name, {})
            for column, work, keys in (
                ("hits, str", lambda keys: get_all(cache, keys), hot),
                ("hits, int", lambda keys: get_all(other, keys), numbers),
                ("Zipf", lambda keys: get_or_insert_all(make(CACHED), keys), requests),
                ("inserts", lambda keys: set_all(make(CACHED), keys), fresh),
            ):
                spent, result = timed(work, keys)
                row.setdefault(column, []).append(len(keys) / spent / 1e6)
                if column == "Zipf":
                    hits[name] = result
        row = rates.setdefault("functools", {})
        functools_all(lru, hot[:HOT])
        row.setdefault("hits, str", []).append(len(hot) / timed(functools_all, lru, hot)[0] / 1e6)
        functools_all(lru, numbers[:HOT])
        spent = timed(functools_all, lru, numbers)[0]
        row.setdefault("hits, int", []).append(len(numbers) / spent / 1e6)
        cached = functools.lru_cache(CACHED)(lambda key: key)
        spent = timed(functools_all, cached, requests)[0]
        row.setdefault("Zipf", []).append(len(requests) / spent / 1e6)
        hits["functools"] = cached.cache_info().hits / len(requests)
    return rates, hits


def bytes_an_entry(make, count=1_000_000):
    """Resident bytes that a full cache takes for each entry, without keys and values."""
    keys = list(range(count))

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    gc.collect()
    before = resident()
    cache = make(count)
    set_all(cache, keys)
    return (resident() - before) / count


def memory(makers):
    """Each in a process of its own."""
    import os

    sizes = {}
    for name, make in makers.items():
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writing, str(bytes_an_entry(make)).encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as file:
            sizes[name] = float(file.read() or "nan")
        os.waitpid(child, 0)
    return sizes


def table(rates, hits, sizes):
    columns = ["hits, str", "hits, int", "Zipf", "inserts"]
    print("| cache | " + " | ".join(columns) + " | hit ratio, Zipf | bytes an entry |")
    print("|---" * (len(columns) + 3) + "|")
    for name, row in rates.items():
        cells = [f"{statistics.median(row[column]):.2f}" if column in row else "–" for column in columns]
        ratio = f"{hits[name]:.3f}"
        size = f"{sizes[name]:.0f}" if name in sizes else "–"
        print(f"| {name} | " + " | ".join(cells) + f" | {ratio} | {size} |")


def threads(makers, rounds):
    """Processor time of a hit with one thread and with two, in nanoseconds, beside a dict's."""
    print("| cache | look-up | one thread, ns | two threads, ns | ratio |")
    print("|---|---|---|---|---|")
    for name, make in {**makers, "dict": lambda _size: {}}.items():
        cache = make(HOT)
        keys = [[str(key) for key in range(part * HOT // 2, (part + 1) * HOT // 2)] for part in (0, 1)]
        for part in keys:
            set_all(cache, part)
        ways = [("`get(key)`", call_all)]
        if hasattr(cache, "__getitem__"):
            ways.append(("`cache[key]`", get_all))
        for way, work in ways:
            spent = {1: [], 2: []}
            for _ in range(rounds):
                for count in (1, 2):
                    parts = [part * 2_000 for part in keys[:count]]
                    spent[count].append(time_of_a_hit(work, cache, parts))
            one, two = (statistics.median(spent[count]) for count in (1, 2))
            print(f"| {name} | {way} | {one:.1f} | {two:.1f} | {two / one:.2f} |")


def time_of_a_hit(work, cache, parts):
    """Processor time, with a thread for each part of the keys."""
    workers = [threading.Thread(target=work, args=(cache, part)) for part in parts]
    before = time.process_time()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return (time.process_time() - before) / sum(map(len, parts)) * 1e9


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", help="sides, separated by commas")
    parser.add_argument("--threads", action="store_true", help="hits with one and with two threads")
    arguments = parser.parse_args()
    makers = sides()
    if arguments.only:
        makers = {name: makers[name] for name in arguments.only.split(",")}
    title = f"Python {sys.version.split()[0]}; medians of {arguments.rounds} rounds"
    print(f"{title}; a hit" if arguments.threads else f"{title}; M operations/s")
    print()
    if arguments.threads:
        threads(makers, arguments.rounds)
    else:
        sizes = memory(makers)
        table(*measure(arguments.rounds, makers), sizes)


if __name__ == "__main__":
    main()
