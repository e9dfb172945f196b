"""`frazil.Cache` as a mapping, and how it treats other people's code."""

import collections.abc
import copy
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import weakref

import pytest

import frazil
from frazil import Cache
from frazil._frazil import _pass as pass_seconds
from patience import PATIENCE, until
from threads import in_threads

POLICIES = [
    "mobius", "fifo", "clock", "clock:bits=2", "sieve", "s3-fifo", "lru", "lru-prob", "lru-relaxed",
    "lru-delayed", "lru-sampled", "slru", "two-queue", "lfu", "w-tinylfu", "arc", "lirs", "lhd",
    "hyperbolic", "gdsf", "lecar", "cacheus", "mad", "guarded-mad", "la-cache", "delay-rank", "random",
]  # fmt: skip


class Key:
    """A key that counts, fails or does something on demand."""

    def __init__(self, name, code=0):
        self.name = name
        self.code = code
        self.hashed = 0
        self.on_eq = None
        self.on_hash = None

    def __hash__(self):
        self.hashed += 1
        if self.on_hash:
            self.on_hash()
        return self.code

    def __eq__(self, other):
        if self.on_eq:
            self.on_eq()
        return isinstance(other, Key) and self.name == other.name


class Value:
    """Something whose end can be seen."""


def failing(error=ZeroDivisionError):
    def fail():
        raise error

    return fail


# As a mapping.


def test_is_a_mapping():
    cache = Cache(10)
    assert isinstance(cache, collections.abc.MutableMapping)
    cache["a"] = 1
    cache.update({"b": 2}, c=3)
    cache.update([("d", 4)])
    assert len(cache) == 4 and "a" in cache and "x" not in cache
    assert dict(cache) == {"a": 1, "b": 2, "c": 3, "d": 4} == dict(cache.items())
    assert cache == {"a": 1, "b": 2, "c": 3, "d": 4} and cache != {"a": 1} and cache != 5
    assert sorted(cache) == sorted(cache.keys()) == ["a", "b", "c", "d"]
    assert sorted(cache.values()) == [1, 2, 3, 4] and 3 in cache.values()
    assert ("a", 1) in cache.items() and cache.keys() & {"a", "x"} == {"a"}
    assert cache["a"] == 1 == cache.get("a") and cache.get("x") is None and cache.get("x", 5) == 5
    assert cache.pop("a") == 1 and cache.pop("a", 7) == 7
    assert cache.setdefault("b", 9) == 2 and cache.setdefault("e", 9) == 9 and cache["e"] == 9
    del cache["b"]
    key, value = cache.popitem()
    assert key not in cache and value in (3, 4, 9)
    cache.clear()
    assert len(cache) == 0 and not cache and list(cache) == []
    for missing in (lambda: cache["x"], lambda: cache.pop("x"), lambda: cache.__delitem__(("t",))):
        with pytest.raises(KeyError):
            missing()
    with pytest.raises(KeyError) as caught:
        cache["x", 1]
    assert caught.value.args == (("x", 1),)
    with pytest.raises(KeyError):
        cache.popitem()
    with pytest.raises(TypeError):
        hash(cache)
    with pytest.raises(TypeError):
        cache.get()
    with pytest.raises(TypeError):
        cache.pop("x", 1, 2)


def test_equal_keys_are_one_key():
    cache = Cache(10)
    cache[1] = "int"
    assert cache[1.0] == cache[True] == "int"
    cache[1.0] = "float"
    assert len(cache) == 1 and list(cache) == [1] and type(next(iter(cache))) is int
    key = "".join(["a", "b", str(len(cache))])
    cache[key] = 1
    assert cache["".join(["ab", "1"])] == 1
    cache[1, "x"] = 5
    assert cache[(1, "".join(["x"]))] == 5
    assert cache.get(float("nan")) is None


def test_a_missing_key_counts_once():
    cache = Cache(2)
    cache["a"] = 1
    cache["a"], cache.get("b"), "a" in cache
    with pytest.raises(KeyError):
        cache["c"]
    cache["a"] = 2
    cache["b"] = cache["c"] = 3
    stats = cache.stats()
    assert (stats.hits, stats.misses, stats.inserts, stats.replacements) == (1, 2, 3, 1)
    assert (stats.evictions, stats.entries, stats.size) == (1, 2, 2)
    assert stats.hit_ratio == pytest.approx(1 / 3) and "evictions=1" in repr(stats)


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_keeps_the_bound(policy):
    cache = Cache(50, policy)
    assert cache.policy.split(":")[0] == policy.split(":")[0]
    for request in range(3000):
        key = request * request % 173
        if cache.get(key) is None:
            cache[key] = key
        assert len(cache) <= 50
        if request % 7 == 0:
            cache.pop((request * 31) % 173, None)
        if request == 1500:
            cache.resize(20)
        if request == 2000:
            cache.resize(50)
        if request % 11 == 0:
            colliding = Key(request % 5)
            cache[colliding] = -1
    for key, value in cache.items():
        assert value == -1 if isinstance(key, Key) else value == key
    stats = cache.stats()
    ends = stats.evictions + stats.deletions
    assert stats.inserts - ends == len(cache) and stats.hits > 0


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_takes_sizes_and_any_capacity(policy):
    cache = Cache(100, policy, getsizeof=lambda value: value)
    for request in range(2000):
        cache[request % 37] = request * 7 % 60
        assert cache.currsize == sum(cache.values()) <= 100
    for size in (0, 1, 2**62, sys.maxsize, None, float("inf")):
        unbounded = Cache(size, policy)
        unbounded["a"] = 1
        assert len(unbounded) == (size != 0)


def test_eviction_is_the_policys():
    lru = Cache(3, "lru")
    for key in "abc":
        lru[key] = key
    assert lru["a"] == "a"
    lru["d"] = "d"
    assert sorted(lru) == ["a", "c", "d"] and lru.popitem() == ("c", "c")
    mobius = Cache(3)
    for key in "abc":
        mobius[key] = key
    assert mobius.get("a") == "a"
    mobius["d"] = "d"
    assert sorted(mobius) == ["a", "c", "d"]


def test_bad_input():
    for maxsize in (-1, float("nan"), -0.5):
        with pytest.raises(ValueError, match="maxsize"):
            Cache(maxsize)
    with pytest.raises(TypeError, match="maxsize"):
        Cache("10")
    with pytest.raises(ValueError, match="did you mean `lru`"):
        Cache(10, "lruu")
    with pytest.raises(ValueError, match="s3-fifo"):
        Cache(10, "S3FIFO")
    for lifetime in (0, -1, float("nan"), -(2**2000)):
        with pytest.raises(ValueError, match="ttl"):
            Cache(10, ttl=lifetime)
        with pytest.raises(ValueError, match="tti"):
            Cache(10, tti=lifetime)
    assert Cache(10, ttl=2**2000).ttl is None
    with pytest.raises(TypeError, match="ttl"):
        Cache(10, ttl="1")
    with pytest.raises(TypeError, match="getsizeof"):
        Cache(10, getsizeof=1)
    with pytest.raises(TypeError, match="on_evict"):
        Cache(10, on_evict=1)
    cache = Cache(10)
    for use in (
        lambda: cache[[]], lambda: cache.get([]), lambda: cache.__setitem__([], 1),
        lambda: cache.__delitem__([]), lambda: [] in cache, lambda: cache.pop([]),
        lambda: cache.setdefault([]), lambda: cache.get_many([[]]),
        lambda: cache.get_or_set([], int),
    ):  # fmt: skip
        with pytest.raises(TypeError, match="unhashable"):
            use()
    with pytest.raises(ValueError):
        cache.resize(-1)
    for size, error in ((-1, ValueError), (float("nan"), ValueError), ("1", TypeError)):
        weighed = Cache(10, getsizeof=lambda value: size)
        with pytest.raises(error, match="getsizeof"):
            weighed["a"] = 1
        assert len(weighed) == 0


# Keys that do things.


@pytest.mark.parametrize("policy", ["mobius", "lru"])
def test_a_key_is_hashed_once_a_call(policy):
    cache = Cache(10, policy)
    key = Key("a")
    for use in (
        lambda: cache.__setitem__(key, 1), lambda: cache[key], lambda: cache.get(key),
        lambda: key in cache, lambda: cache.setdefault(key, 2), lambda: cache.get_or_set(key, int),
        lambda: cache.pop(key), lambda: cache.get(key), lambda: cache.setdefault(key, 2),
        lambda: cache.__delitem__(key), lambda: cache.get_or_set(key, int),
        lambda: cache.__setitem__(Key("b"), 3), lambda: cache.pop(Key("c"), None),
    ):  # fmt: skip
        before = key.hashed
        use()
        assert key.hashed <= before + 1
    other = Key("b")
    assert cache[other] == 3 and other.hashed == 1
    other = Key("b")
    found = cache.get_many([other])
    assert other.hashed == 1 and found == {other: 3}


@pytest.mark.parametrize("policy", ["mobius", "lru"])
def test_errors_of_comparisons_and_hashes_are_raised(policy):
    cache = Cache(10, policy)
    kept = Key("a")
    cache[kept] = 1
    for failing_one in (kept, Key("b")):
        failing_one.on_eq = failing()
    uses = (
        lambda key: cache[key], lambda key: cache.get(key), lambda key: cache.__setitem__(key, 2),
        lambda key: cache.__delitem__(key), lambda key: key in cache, lambda key: cache.pop(key, 0),
        lambda key: cache.setdefault(key, 2), lambda key: cache.get_many([key]),
        lambda key: cache.get_or_set(key, int),
    )  # fmt: skip
    for use in uses:
        with pytest.raises(ZeroDivisionError):
            use(Key("b"))
        unhashed = Key("a")
        unhashed.on_hash = failing()
        with pytest.raises(ZeroDivisionError):
            use(unhashed)
        assert len(cache) == 1
    kept.on_eq = None
    assert cache[Key("a")] == 1


def test_a_comparison_may_change_the_cache():
    for change in ("clear", "delete", "replace", "grow", "evict"):
        cache = Cache(10)
        kept = Key("a")
        cache[kept] = Value()

        def reenter():
            kept.on_eq = None
            if change == "clear":
                cache.clear()
            elif change == "delete":
                del cache[kept]
            elif change == "replace":
                cache[kept] = 2
            elif change == "grow":
                for number in range(9):
                    cache[number] = number
            else:
                for number in range(30):
                    cache[number] = number

        kept.on_eq = reenter
        found = cache.get(Key("a"))
        if change == "replace":
            assert found == 2
        elif change == "grow":
            assert isinstance(found, Value)
        else:
            assert found is None
        kept.on_eq = reenter
        cache[Key("a")] = 5
        assert cache[Key("a")] == 5 and sum(isinstance(key, Key) for key in cache) == 1


def test_a_comparison_that_goes_on_adding_ends():
    cache = Cache(None)
    made = []

    def add():
        if len(made) < 300:
            key = Key(len(made))
            made.append(key)
            key.on_eq = add
            dict.__len__({})
            before = key.on_eq
            key.on_eq = None
            cache[key] = 1
            key.on_eq = before

    first = Key("first")
    first.on_eq = add
    cache[first] = 0
    try:
        assert cache.get(Key("absent")) is None
    except RecursionError:
        pass
    assert len(cache) == len(list(cache))


def test_a_destructor_may_use_the_cache():
    cache = Cache(3)

    class Loud:
        def __del__(self):
            cache["last words"] = len(cache)

    cache["a"] = Loud()
    cache["a"] = 1
    assert cache["last words"] == 1
    cache.clear()
    for number in range(3):
        cache[number] = Loud()
    cache["more"] = 1
    assert "last words" in cache and len(cache) == 3
    cache.clear()
    assert list(cache) == ["last words"]


# What goes is released.


def released(make_go, policy="mobius", **settings):
    cache = Cache(3, policy, **settings)
    key, value = Key("k", 77), Value()
    ends = weakref.ref(key), weakref.ref(value)
    cache[key] = value
    del key, value
    make_go(cache)
    return [end() is None for end in ends]


@pytest.mark.parametrize("policy", ["mobius", "lru", "s3-fifo", "w-tinylfu"])
def test_what_goes_is_released_before_the_call_returns(policy):
    gc.disable()
    try:
        assert released(lambda cache: cache.pop(Key("k", 77)), policy) == [True, True]
        assert released(lambda cache: cache.__delitem__(Key("k", 77)), policy) == [True, True]
        assert released(lambda cache: cache.__setitem__(Key("k", 77), 1), policy) == [False, True]
        assert released(lambda cache: cache.clear(), policy) == [True, True]
        assert released(lambda cache: cache.resize(0), policy) == [True, True]
        assert released(lambda cache: cache.popitem(), policy) == [True, True]
        assert released(lambda cache: cache.update(zip(range(90), range(90))), policy)[1] in (
            [True] if policy != "w-tinylfu" else [True, False]
        )
    finally:
        gc.enable()


def test_a_value_that_is_refused_is_released():
    cache = Cache(3, getsizeof=lambda value: 5)
    value = Value()
    end = weakref.ref(value)
    cache["a"] = value
    del value
    assert end() is None and "a" not in cache and cache.stats().refusals == 1


def test_reference_counts_stay():
    cache = Cache(100)
    key, value = ("key",), Value()
    before = sys.getrefcount(key), sys.getrefcount(value)
    for round in range(1000):
        cache[key] = value
        cache.get(key), cache[key], cache.get(("key",)), cache.setdefault(key, value)
        cache.get_or_set(key, Value), cache.get_many([key]), key in cache, list(cache.items())
        if round % 3 == 0:
            del cache[key]
        elif round % 3 == 1:
            cache.clear()
    cache.clear()
    assert (sys.getrefcount(key), sys.getrefcount(value)) == before
    default = Value()
    before = sys.getrefcount(default)
    for _ in range(100):
        cache.get("absent", default)
        cache.pop("absent", default)
    assert sys.getrefcount(default) == before


CHAINS = """
import collections, gc, sys, frazil

def chain(link, length=40_000):
    cache = frazil.Cache(1)
    for _ in range(length):
        cache = link(frazil.Cache(1), cache)
    return cache

def direct(outer, inner):
    outer[0] = inner
    return outer

def listed(outer, inner):
    outer[0] = [{1: (inner,)}]
    return outer

def called(outer, inner):
    return frazil.Cache(1, on_evict=inner.get)

def iterated(outer, inner):
    outer[0] = iter(inner)
    return outer

class Derived(frazil.Cache):
    pass

def derived(outer, inner):
    outer = Derived(1)
    outer[0] = outer.of = inner
    return outer

class End:
    def __del__(self):
        ended.append(1)

ended = []
for link in (direct, listed, called, iterated, derived):
    cache = chain(link)
    del cache
for release in (
    lambda cache: cache.clear(), lambda cache: cache.__setitem__(1, 1),
    lambda cache: cache.pop(0), lambda cache: cache.resize(0),
):
    cache = frazil.Cache(1)
    cache[0] = chain(direct)
    release(cache)
holder = [chain(direct)]
holder.append(holder)
del holder
gc.collect()
cache = frazil.Cache(1)
cache[0] = End()
for _ in range(1000):
    cache = direct(frazil.Cache(1), cache)
cache.clear()
assert ended == [1], "before the call returns"
"""


def test_a_long_chain_of_caches_is_released():
    # In a process of its own, which a stack that is too short would end.
    done = subprocess.run([sys.executable, "-c", CHAINS], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_cycles_are_collected():
    for make in (
        lambda cache: cache.__setitem__("me", cache),
        lambda cache: cache.__setitem__("it", iter(cache)),
        lambda cache: cache.__setitem__((1, cache.get), 1),
    ):
        cache = Cache(10)
        make(cache)
        end = weakref.ref(cache)
        del cache
        gc.collect()
        assert end() is None
    caches = []
    told = Cache(10, on_evict=lambda *entry: caches[0])
    caches.append(told)
    end = weakref.ref(told)
    del told, caches
    gc.collect()
    assert end() is None


# Lifetimes, sizes, callbacks.


def test_entries_expire_after_their_insertion():
    cache = Cache(10, ttl=1000)
    cache["a"] = value = Value()
    end = weakref.ref(value)
    del value
    assert "a" in cache and cache.ttl == 1000 and cache.tti is None
    pass_seconds(600)
    assert cache["a"] and list(cache) == ["a"]
    pass_seconds(600)
    assert "a" not in cache and list(cache) == [] and cache.get("a") is None
    assert end() is None and len(cache) == 0 and cache.stats().expirations == 1
    cache["b"] = 1
    pass_seconds(600)
    cache["b"] = 2
    pass_seconds(600)
    assert cache["b"] == 2


def test_entries_expire_after_their_last_use():
    cache = Cache(10, tti=1000)
    cache["used"] = cache["unused"] = 1
    for _ in range(4):
        pass_seconds(400)
        assert cache["used"] == 1
    assert len(cache) == 1 and "unused" not in cache
    pass_seconds(1001)
    assert cache.get("used") is None


def test_a_lifetime_passes_by_itself():
    cache = Cache(10, ttl=0.01)
    cache["a"] = 1
    until(lambda: "a" not in cache)


def test_sizes():
    cache = Cache(10, "lru", getsizeof=len)
    cache["a"], cache["b"] = "aaaa", "bbbb"
    assert cache.currsize == 8 and cache.maxsize == 10
    cache["c"] = "ccc"
    assert sorted(cache) == ["b", "c"] and cache.currsize == 7
    cache["b"] = "b" * 9
    assert sorted(cache) == ["b"] and cache.currsize == 9
    cache["b"] = "b" * 11
    assert len(cache) == 0 and cache.stats().refusals == 1
    weighed = Cache(2.5, getsizeof=lambda value: 0.5)
    weighed["a"] = weighed["b"] = 1
    assert weighed.currsize == 2 == weighed.maxsize


def test_on_evict_is_told_of_what_goes_by_itself():
    told = []
    cache = Cache(2, on_evict=lambda *entry: told.append(entry), ttl=1000)
    cache["a"], cache["b"], cache["c"] = 1, 2, 3
    assert told == [("a", 1, "size")]
    cache["b"] = 5
    del cache["b"]
    assert len(told) == 1
    pass_seconds(1001)
    assert len(cache) == 0 and told[1:] == [("c", 3, "expired")]
    cache["d"], cache["e"] = 1, 2
    cache.resize(1)
    assert told[2:] == [("d", 1, "size")]
    cache.clear()
    assert len(told) == 3


def test_an_error_of_on_evict_is_raised_when_all_is_done():
    cache = Cache(1, on_evict=lambda *entry: 1 / 0)
    cache["a"] = 1
    with pytest.raises(ZeroDivisionError):
        cache["b"] = 2
    assert dict(cache) == {"b": 2}
    reentering = Cache(1, on_evict=lambda key, value, cause: reentering.get(key))
    for number in range(5):
        reentering[number] = number
    assert dict(reentering) == {4: 4}


# Loads.


def test_get_or_set():
    cache = Cache(10)
    assert cache.get_or_set("a", lambda: 1) == 1 == cache.get_or_set("a", lambda: 2)
    with pytest.raises(ZeroDivisionError):
        cache.get_or_set("b", lambda: 1 / 0)
    assert "b" not in cache and cache.get_or_set("b", lambda: 3) == 3
    with pytest.raises(RuntimeError, match="asks for that key"):
        cache.get_or_set("c", lambda: cache.get_or_set("c", int))
    assert cache.get_or_set("d", lambda: cache.get_or_set("e", int)) == 0
    assert cache.stats().loads == 6


def test_many_threads_on_a_cold_key_make_one_call():
    cache = Cache(10)
    calls = []
    keys = [Key("a") for _ in range(200)]

    def make():
        calls.append(1)
        until(lambda: all(key.hashed for key in keys))
        return Value()

    results = in_threads(200, lambda index: cache.get_or_set(keys[index], make))
    assert len(calls) == 1 and type(results[0]) is Value and len(set(map(id, results))) == 1


def test_a_loader_that_fails_hands_over():
    cache = Cache(10)
    calls = []
    keys = [Key("a") for _ in range(10)]

    def make():
        calls.append(1)
        until(lambda: all(key.hashed for key in keys))
        if len(calls) < 3:
            raise ZeroDivisionError
        return "value"

    results = in_threads(10, lambda index: cache.get_or_set(keys[index], make))
    assert len(calls) == 3 and sorted(map(str, results)) == ["", ""] + ["value"] * 8


def test_loaders_that_wait_for_each_other_are_told():
    cache = Cache(10)
    barrier = threading.Barrier(2)

    def load(mine, others):
        def make():
            barrier.wait()
            return cache.get_or_set(others, lambda: f"by {mine}")

        return cache.get_or_set(mine, make)

    results = in_threads(2, lambda index: load("ab"[index], "ba"[index]))
    assert "loaders ask for each other's keys" in map(str, results)


def test_a_write_overtakes_a_load():
    cache = Cache(10)

    def make():
        cache["a"] = "written"
        return "loaded"

    assert cache.get_or_set("a", make) == "loaded" and cache["a"] == "written"

    def make_and_clear():
        cache.clear()
        return "stale"

    assert cache.get_or_set("b", make_and_clear) == "stale" and "b" not in cache


# Copies and files.


def test_copies_and_pickles():
    cache = Cache(5, "lru", getsizeof=len, ttl=60)
    for key in "abcde":
        cache[key] = key
    cache["a"]
    for other in (cache.copy(), copy.copy(cache), copy.deepcopy(cache), pickle.loads(pickle.dumps(cache))):
        assert type(other) is Cache and other == cache and other is not cache
        assert (other.maxsize, other.policy, other.ttl) == (5, "lru", 60)
        other["f"] = "f"
        assert "b" not in other and "a" in other and "b" in cache
    cache.clear()
    own = Cache(5)
    own["me"] = own
    twin = pickle.loads(pickle.dumps(own))
    assert twin["me"] is twin
    twin = copy.deepcopy(own)
    assert twin["me"] is twin


class Named(Cache):
    """A subclass with data of its own."""


def test_a_subclass_is_copied_with_its_own():
    cache = Named(5)
    cache.name = "x"
    cache["a"] = 1
    for other in (cache.copy(), pickle.loads(pickle.dumps(cache))):
        assert type(other) is Named and other.name == "x" and other == cache


def test_a_copy_lives_no_longer():
    cache = Cache(5, ttl=1000)
    cache["old"] = 1
    pass_seconds(600)
    cache["new"] = 1
    other = pickle.loads(pickle.dumps(cache))
    assert len(other) == 2
    pass_seconds(600)
    assert list(other) == ["new"] and len(other) == 1


def test_snapshots(tmp_path):
    cache = Cache(100, "lru")
    for number in range(100):
        cache[number] = str(number)
    path = tmp_path / "cache.snapshot"
    assert cache.snapshot(path) == 100 and os.listdir(tmp_path) == ["cache.snapshot"]
    other = Cache(10, "lru")
    assert other.restore(str(path)) == 100 and sorted(other) == list(range(90, 100))
    content = path.read_bytes()
    for damaged in (content[:-1], b"", b"x" + content[1:], content[:50] + b"\xff" + content[51:]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError):
            other.restore(path)
    assert len(other) == 10
    with pytest.raises(FileNotFoundError):
        other.restore(tmp_path / "absent")
    with pytest.raises(FileNotFoundError):
        other.snapshot(tmp_path / "absent" / "file")


def test_recordings(tmp_path):
    cache = Cache(10)
    path = tmp_path / "requests.frazil"
    with cache.record(path) as recording:
        with pytest.raises(OSError):
            cache.record(tmp_path / "second")
        for key in (1, 2, 1, 3):
            if cache.get(key) is None:
                cache[key] = key
        del cache[3]
    assert recording.finish() is None and path.stat().st_size > 40
    again = cache.record(path, 1)
    cache.get(1)
    records, lost, size = again.finish()
    assert (records, lost) == (1, 0) and size == path.stat().st_size
    for rate in (0, -1, 1.5, float("nan")):
        with pytest.raises(ValueError, match="rate"):
            cache.record(path, rate)


def test_a_recording_that_is_dropped_ends(tmp_path):
    cache = Cache(10)
    dropped = cache.record(tmp_path / "first")
    cache.get(1)
    del dropped
    assert frazil.trace_info(str(tmp_path / "first"))["requests"] == [1]
    with cache.record(tmp_path / "second"):
        cache.get(1)
    try:
        recording = cache.record(tmp_path / "third")
        raise KeyError("kept")
    except KeyError as error:
        del recording
        assert error.args == ("kept",)
    assert cache.record(tmp_path / "fourth").finish()[0] == 0


def test_defaults_by_name():
    cache = Cache(10)
    cache["a"] = 1
    assert cache.get("a", default=2) == 1 and cache.get("b", default=2) == 2
    assert cache.pop("b", default=None) is None and cache.pop("a", default=3) == 1
    assert cache.setdefault("c", default=4) == 4 == cache["c"]
    for wrong in (
        lambda: cache.get(), lambda: cache.get(default=1), lambda: cache.get("a", defaul=1),
        lambda: cache.get("a", 1, default=1), lambda: cache.get("a", 1, 2),
        lambda: cache.get(key="a"), lambda: cache.pop(), lambda: cache.pop("a", 1, 2),
        lambda: cache.pop("a", 1, default=2), lambda: cache.pop(key="a"),
        lambda: cache.get("a", default=1, other=2), lambda: cache.setdefault("a", 1, 2),
    ):  # fmt: skip
        with pytest.raises(TypeError):
            wrong()


def test_stats_are_pickled():
    cache = Cache(2)
    cache.update(zip("abc", range(3)))
    cache.get("c"), cache.get("x"), cache.pop("c")
    stats = cache.stats()
    assert stats.deletions == 1
    for other in (pickle.loads(pickle.dumps(stats)), copy.deepcopy(stats)):
        assert other == stats and repr(other) == repr(stats)


def test_get_many_and_resize():
    cache = Cache(10)
    cache.update(zip(range(10), range(10)))
    assert cache.get_many(range(8, 12)) == {8: 8, 9: 9}
    cache.resize(3)
    assert len(cache) == 3 == cache.maxsize
    cache.resize(20)
    cache.update(zip(range(20), range(20)))
    assert len(cache) == 20
    assert "Cache maxsize=20 policy=mobius len=20" in repr(cache)
    assert Cache[int, str].__origin__ is Cache and sys.getsizeof(cache) > 500


# Threads and processes.


def test_iteration_bears_changes():
    cache = Cache(50)
    cache.update(zip(range(50), range(50)))
    seen = []
    for key in cache:
        seen.append(key)
        cache.pop(key + 1, None)
        cache[1000 + key] = 1
    assert len(seen) == len(set(seen))


def test_threads_share_it():
    cache = Cache(200)

    def work(index):
        seed = (3, 5, 7, 11)[index]
        for step in range(3000):
            key = (step * seed) % 997
            value = cache.get(key)
            assert value is None or value == key
            if value is None:
                cache[key] = key
            if step % 50 == 0:
                cache.pop(key, None)
                assert len(cache) <= 200
                assert all(key == value for key, value in cache.items())

    assert in_threads(4, work) == [None] * 4 and len(cache) <= 200


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_fork_is_safe():
    cache = Cache(100)
    stop = threading.Event()
    loading = threading.Event()

    def churn():
        number = 0
        while not stop.is_set():
            number += 1
            cache[number % 300] = number

    def load():
        loading.set()
        stop.wait()
        return "parent"

    threads = [threading.Thread(target=churn), threading.Thread(target=cache.get_or_set, args=("k", load))]
    for thread in threads:
        thread.start()
    loading.wait()
    try:
        for _ in range(10):
            child = os.fork()
            if child == 0:
                cache["x"] = 1
                well = cache["x"] == 1 and cache.get_or_set("k", lambda: "child") == "child"
                os._exit(0 if well and len(cache) <= 100 else 1)
            deadline = time.monotonic() + PATIENCE
            while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
                if time.monotonic() > deadline:
                    os.kill(child, signal.SIGKILL)
                time.sleep(0.001)
            assert ended[1] == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert cache["k"] == "parent"
