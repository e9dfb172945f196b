"""`frazil.Cache` against a plain model, with keys that raise and re-enter; memory that stays."""

import gc
import os
import resource
import sys

import pytest
from frazil import Cache
from test_cache import POLICIES as ALL_POLICIES

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import settings, strategies  # noqa: E402
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule  # noqa: E402

LONG = bool(os.environ.get("FRAZIL_LONG"))
# AddressSanitizer holds what was released back.
SANITIZED = "libasan" in os.environ.get("LD_PRELOAD", "")
POLICIES = ["mobius", "lru", "fifo", "s3-fifo", "sieve", "clock", "w-tinylfu", "arc", "lirs", "lfu", "slru"]


class Refused(Exception):
    """What a key raises."""


class Key:
    """Equal by number; several numbers share a hash."""

    armed = None  # "hash", "eq" or a function to call in the next comparison

    def __init__(self, number):
        self.number = number

    def __hash__(self):
        if Key.armed == "hash":
            raise Refused
        return self.number % 3

    def __eq__(self, other):
        if Key.armed == "eq":
            raise Refused
        if callable(Key.armed):
            armed, Key.armed = Key.armed, None
            armed()
        return isinstance(other, Key) and self.number == other.number

    def __repr__(self):
        return f"Key({self.number})"


NUMBERS = strategies.integers(0, 7)
KEYS = strategies.one_of(
    NUMBERS.map(Key), strategies.integers(0, 5), strategies.sampled_from(["a", "b", ("t", 1), 2.0, True])
)
SIZES = strategies.integers(0, 4)


def plain(key):
    """A key by which a dict may know it, without calls of Python code that raises."""
    return ("Key", key.number) if isinstance(key, Key) else key


class Model(RuleBasedStateMachine):
    """What the cache has, the model has had last. The model drops what the cache says it evicted."""

    @initialize(
        policy=strategies.sampled_from(POLICIES),
        maxsize=strategies.integers(0, 12),
        weighed=strategies.booleans(),
    )
    def make(self, policy, maxsize, weighed):
        self.evicted = []
        self.maxsize = maxsize
        self.weighed = weighed
        self.values = {}
        self.serial = 0
        self.cache = Cache(
            maxsize,
            policy,
            getsizeof=(lambda value: value[1]) if weighed else None,
            on_evict=lambda key, value, cause: self.evicted.append((plain(key), value, cause)),
        )

    def teardown(self):
        Key.armed = None

    def settle(self):
        for key, value, cause in self.evicted:
            assert cause == "size" and self.values.pop(key) == value
        self.evicted.clear()

    def stored(self, key, value):
        """A store was done; a refusal leaves nothing of the key."""
        self.values[plain(key)] = value
        self.settle()
        if plain(key) in self.values and key not in self.cache:
            assert self.cache.stats().refusals > self.refusals
            del self.values[plain(key)]
        self.refusals = self.cache.stats().refusals

    refusals = 0

    def value(self, size):
        self.serial += 1
        return (self.serial, size)

    @rule(key=KEYS, size=SIZES)
    def store(self, key, size):
        value = self.value(size)
        self.cache[key] = value
        self.stored(key, value)

    @rule(key=KEYS)
    def get(self, key):
        assert self.cache.get(key) == self.values.get(plain(key))
        assert (key in self.cache) == (plain(key) in self.values)

    @rule(key=KEYS)
    def delete(self, key):
        if plain(key) in self.values:
            del self.cache[key]
            del self.values[plain(key)]
        else:
            with pytest.raises(KeyError):
                del self.cache[key]

    @rule(key=KEYS)
    def pop(self, key):
        assert self.cache.pop(key, None) == self.values.pop(plain(key), None)

    @rule(key=KEYS, size=SIZES)
    def setdefault(self, key, size):
        value = self.value(size)
        there = self.values.get(plain(key))
        assert self.cache.setdefault(key, value) == (there or value)
        if there is None:
            self.stored(key, value)

    @rule(key=KEYS, size=SIZES)
    def load(self, key, size):
        value = self.value(size)
        there = self.values.get(plain(key))
        assert self.cache.get_or_set(key, lambda: value) == (there or value)
        if there is None:
            self.stored(key, value)

    @rule(key=KEYS)
    def load_in_vain(self, key):
        def fail():
            raise Refused

        if plain(key) in self.values:
            assert self.cache.get_or_set(key, fail) == self.values[plain(key)]
        else:
            with pytest.raises(Refused):
                self.cache.get_or_set(key, fail)

    @rule()
    def popitem(self):
        if self.values:
            key, value = self.cache.popitem()
            assert self.values.pop(plain(key)) == value
        else:
            with pytest.raises(KeyError):
                self.cache.popitem()

    @rule()
    def clear(self):
        self.cache.clear()
        self.values.clear()

    @rule(maxsize=strategies.integers(0, 12))
    def resize(self, maxsize):
        self.cache.resize(maxsize)
        self.maxsize = maxsize
        self.settle()

    @precondition(lambda self: any(isinstance(key, tuple) and key[0] == "Key" for key in self.values))
    @rule(number=NUMBERS, use=strategies.integers(0, 5), how=strategies.sampled_from(["hash", "eq"]))
    def raise_in_the_key(self, number, use, how):
        """Nothing changes, whatever was asked; without a comparison nothing is raised."""
        collides = any(
            isinstance(key, tuple) and key[0] == "Key" and key[1] % 3 == number % 3 for key in self.values
        )
        if how == "eq" and not collides:
            return
        key = Key(number)
        uses = (
            lambda: self.cache[key], lambda: self.cache.__setitem__(key, (0, 0)),
            lambda: self.cache.pop(key, 0), lambda: key in self.cache,
            lambda: self.cache.setdefault(key, (0, 0)), lambda: self.cache.get_or_set(key, lambda: (0, 0)),
        )  # fmt: skip
        Key.armed = how
        try:
            with pytest.raises(Refused):
                uses[use]()
        finally:
            Key.armed = None

    @rule(number=NUMBERS, inner=NUMBERS, size=SIZES, deletes=strategies.booleans())
    def reenter(self, number, inner, size, deletes):
        """A comparison stores or deletes a key of the same hash; what then holds is what is seen."""
        value, later = self.value(size), self.value(size)
        key = Key(inner)
        ran = []

        def change():
            ran.append(1)
            if deletes:
                assert self.cache.pop(key, None) == self.values.pop(plain(key), None)
            else:
                self.cache[key] = value
                self.stored(key, value)

        Key.armed = change
        try:
            self.cache[Key(number)] = later
        finally:
            Key.armed = None
        self.stored(Key(number), later)

    @invariant()
    def agrees(self):
        if not hasattr(self, "cache"):
            return
        assert {plain(key): value for key, value in self.cache.items()} == self.values
        assert len(self.cache) == len(self.values)
        weight = sum(size for _, size in self.values.values()) if self.weighed else len(self.values)
        assert self.cache.currsize == weight <= self.maxsize


TestModel = Model.TestCase
TestModel.settings = settings(
    max_examples=2_000 if LONG else 60, stateful_step_count=60, deadline=None, derandomize=not LONG
)


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
@pytest.mark.parametrize("policy", ALL_POLICIES if LONG else ["mobius", "lru", "s3-fifo"])
def test_operations_leave_memory_and_reference_counts(policy):
    """Also of those that a key refuses. FRAZIL_LONG=1 makes 10⁷ operations."""
    operations = 10_000_000 if LONG else 200_000
    value = object()
    keys = [(number,) for number in range(3_000)]
    own = Key(5)
    cache = Cache(1_000, policy)

    def work(count):
        for step in range(count // 4):
            key = keys[step * 7919 % 3_000]
            if cache.get(key) is None:
                cache[key] = value
            cache[keys[step % 3_000]] = value
            cache.pop(keys[step * 31 % 3_000], None)
            cache.get_or_set(key, object)
            if step % 100 == 0:
                refused(step // 100)

    def refused(turn):
        cache[own] = value
        Key.armed = ("hash", "eq")[turn % 2]
        uses = cache.get, cache.pop, cache.setdefault, lambda key: cache.get_or_set(key, object)
        try:
            uses[turn // 2 % 4](Key(own.number))
        except Refused:
            pass
        else:
            raise AssertionError("the key was not asked")
        finally:
            Key.armed = None

    work(100_000)
    cache.clear()
    gc.collect()
    keys.append(own)
    memory, counts = resident(), [sys.getrefcount(key) for key in keys]
    references = sys.getrefcount(value)
    work(operations)
    cache.clear()
    gc.collect()
    assert [sys.getrefcount(key) for key in keys] == counts
    assert sys.getrefcount(value) == references
    if not SANITIZED:
        assert resident() - memory < 2_000_000
