"""Compares decorators with functools, and classes with cachetools: processor time of one thread,
in rounds that take turns.

    python benches/decorators.py [--rounds 15]

Prints tables in Markdown, and writes nothing. A figure is the least of its rounds, in nanoseconds a
call, loop included; behind it how many times as fast as the first column.
"""

import argparse
import functools
import itertools
import random
import sys
import time

import frazil
import frazil.compat

KEYS = 1_000


def processor_time(work, rounds, sides):
    """The least time of each side, in turns."""
    best = dict.fromkeys(sides, float("inf"))
    for name in sides:
        work(sides[name])
    for _ in range(rounds):
        for name, side in sides.items():
            begin = time.process_time()
            work(side)
            best[name] = min(best[name], time.process_time() - begin)
    return best


def head(title, columns):
    print(f"| {title} | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 1) + "|")


def show(title, count, best):
    first = next(iter(best.values()))
    cells = [f"{b / count * 1e9:.1f} ({first / b:.2f})" for b in best.values()]
    print(f"| {title} | " + " | ".join(cells) + " |")


def decorators(rounds):
    def one(x):
        return x

    def two(x, y):
        return x

    def sides(function):
        return {
            "functools": functools.lru_cache(KEYS)(function),
            "`lru_cache`": frazil.lru_cache(KEYS)(function),
            "`cached`": frazil.cached(KEYS)(function),
            "`cached`, lru": frazil.cached(KEYS, "lru")(function),
            "`cached`, ttl": frazil.cached(KEYS, ttl=1000)(function),
        }

    numbers = [number + 1000 for number in range(KEYS)] * 50
    words = list(map(str, numbers))

    def call(keys):
        def work(function):
            for key in keys:
                function(key)

        return work

    def call_two(function):
        for key in numbers:
            function(key, 1)

    head("a hit, ns", sides(one))
    show("integers", len(numbers), processor_time(call(numbers), rounds, sides(one)))
    show("strings", len(words), processor_time(call(words), rounds, sides(one)))
    show("two arguments", len(numbers), processor_time(call_two, rounds, sides(two)))


def classes(rounds):
    try:
        import cachetools
    except ImportError:
        print("cachetools is not installed")
        return
    random.seed(1)
    weights = list(itertools.accumulate(1 / (rank + 1) for rank in range(10 * KEYS)))
    popular = random.choices(range(10 * KEYS), cum_weights=weights, k=50_000)

    def hits(cache):
        for _ in range(50):
            for key in range(KEYS):
                cache[key]

    def zipf(cache):
        for key in popular:
            if cache.get(key) is None:
                cache[key] = key

    def sets(cache):
        for key in range(50_000):
            cache[key] = key

    print()
    head("an operation, ns", ["cachetools", "`frazil.compat`"])
    settings = {"TTLCache": (1000,), "TLRUCache": (lambda key, value, now: now + 1000,)}
    for name in frazil.compat.__all__:
        for work in (hits, zipf, sets):
            sides = {}
            for module in (cachetools, frazil.compat):
                cache = getattr(module, name)(KEYS, *settings.get(name, ()))
                cache.update((key, key) for key in range(KEYS))
                sides[module.__name__] = cache
            show(f"{name}, {work.__name__}", 50_000, processor_time(work, min(rounds, 3), sides))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    print(f"Python {sys.version.split()[0]}; the least of {rounds} rounds, of classes of"
          f" {min(rounds, 3)}; behind it how many times as fast as the first column")
    print()
    decorators(rounds)
    classes(rounds)


if __name__ == "__main__":
    main()
