"""`frazil.compat` beyond cachetools' own tests (`tests/upstream`)."""

import collections
import contextlib
import copy
import functools
import gc
import itertools
import pickle
import random
import sys
import threading
import time
import weakref

import pytest

from frazil import compat
from threads import in_threads

CLASSES = [getattr(compat, name) for name in compat.__all__]


class Clock:
    now = 0

    def __call__(self):
        return self.now


def make(cls, maxsize, **settings):
    if issubclass(cls, compat.TTLCache):
        settings = {"ttl": 10, "timer": Clock(), **settings}
    if issubclass(cls, compat.TLRUCache):
        settings = {"ttu": lambda key, value, now: now + 10, "timer": Clock(), **settings}
    return cls(maxsize, **settings)


class Model:
    """Which key each class evicts, by a list of its keys, the next first."""

    def __init__(self, cls, maxsize):
        self.cls, self.maxsize = cls, maxsize
        self.data, self.order, self.uses = {}, [], collections.Counter()

    def use(self, key, assigned):
        cls = self.cls
        if cls is compat.LFUCache:
            self.uses[key] += 1
        if cls is compat.Cache or (cls is compat.FIFOCache and not assigned):
            return
        self.order.remove(key)
        self.order.append(key)

    def get(self, key):
        if key in self.data:
            self.use(key, False)
        return self.data.get(key)

    def set(self, key, value):
        if key in self.data:
            self.data[key] = value
            return self.use(key, True)
        if len(self.data) == self.maxsize:
            # The least count; of equal ones the first that reached it.
            victim = min(self.order, key=lambda key: self.uses[key])
            self.delete(victim)
        self.data[key] = value
        self.order.append(key)
        self.uses[key] = 1 if self.cls is compat.LFUCache else 0

    def delete(self, key):
        self.order.remove(key)
        self.data.pop(key)
        self.uses.pop(key, None)


@pytest.mark.parametrize("cls", [c for c in CLASSES if c is not compat.RRCache])
def test_as_a_plain_model(cls):
    rng = random.Random(3)
    ours, model = make(cls, 12), Model(cls, 12)
    for step in range(6000):
        key = min(int(rng.expovariate(0.08)), 60)
        what = rng.random()
        if what < 0.5:
            assert ours.get(key) == model.get(key), step
        elif what < 0.9:
            ours[key] = step
            model.set(key, step)
        elif key in model.data:
            del ours[key]
            model.delete(key)
        assert len(ours) == len(model.data)
    assert {key: value for key, value, *_ in ours._dump()[0]} == model.data
    for again in (copy.copy(ours), copy.deepcopy(ours), ours):
        left = copy.deepcopy(model.__dict__)
        while len(again):
            victim = min(left["order"], key=lambda key: left["uses"][key])
            assert again.popitem() == (victim, model.data[victim])
            left["order"].remove(victim)


def test_random_evicts_every_key_at_times():
    random.seed(4)
    cache = compat.RRCache(5)
    gone = collections.Counter()
    for key in range(500):
        before = set(cache)
        cache[key] = key
        gone.update((key - 1 - victim) for victim in before - set(cache))
        if key % 7 == 0:
            del cache[random.choice(list(cache))]
    assert len(cache) <= 5 and len(gone) > 10


@pytest.mark.parametrize("cls", CLASSES)
def test_overridden_methods_are_called(cls):
    log = []

    class Logged(cls):
        def popitem(self):
            key, value = super().popitem()
            log.append(("evicted", key))
            return key, value

        def __delitem__(self, key):
            log.append(("deleted", key))
            super().__delitem__(key)

        def __missing__(self, key):
            log.append(("missing", key))
            return -key

    cache = make(Logged, 2)
    cache.update({1: 1, 2: 2, 3: 3})
    assert cache[9] == -9
    victim = ({1, 2, 3} - set(cache)).pop()
    assert log == [("deleted", victim), ("evicted", victim), ("missing", 9)]
    other = next(iter(cache))
    assert cache.pop(other) == other and log[-1] == ("deleted", other)


@pytest.mark.parametrize("cls", CLASSES)
def test_only_delitem_overridden(cls):
    class Logged(cls):
        def __delitem__(self, key):
            log.append(key)
            super().__delitem__(key)

    log = []
    cache = make(Logged, 1)
    cache[1] = cache[2] = 0
    assert log == [1]


@pytest.mark.parametrize("cls", CLASSES)
def test_sizes_that_are_no_whole_numbers(cls):
    cache = make(cls, 1.5, getsizeof=lambda value: value)
    cache.update(a=0.5, b=0.75)
    assert cache.currsize == 1.25
    cache["c"] = 1
    assert cache.currsize <= 1.5 and "c" in cache
    for wrong, text in ((1.75, "too large"), (-0.5, "non-negative")):
        with pytest.raises(ValueError, match=text):
            cache["d"] = wrong
    with pytest.raises(TypeError):
        cache["d"] = "x"
    cache.clear()
    assert cache.currsize == 0 and type(cache.currsize) is int


@pytest.mark.parametrize("cls", CLASSES)
def test_eq_may_do_anything(cls):
    class Key:
        def __init__(self, name):
            self.name = name

        def __hash__(self):
            return 1

        def __eq__(self, other):
            action = rng.random()
            if action < 0.05:
                raise ZeroDivisionError
            if depth and action < 0.3:
                depth.pop()
                cache[Key(rng.randrange(9))] = 0
            elif depth and action < 0.4:
                depth.pop()
                cache.clear()
            return self.name == other.name

    rng, depth = random.Random(6), []
    cache = make(cls, 5)
    raised = 0
    for _ in range(2000):
        depth[:] = [0, 0]
        key = Key(rng.randrange(9))
        try:
            rng.choice([cache.get, cache.__contains__, lambda key: cache.pop(key, 0),
                        lambda key: cache.__setitem__(key, 0)])(key)
        except (ZeroDivisionError, KeyError) as error:
            raised += type(error) is ZeroDivisionError
        assert len(cache) <= 5
        items, order = cache._dump()
        assert sorted(order) == list(range(len(items)))
    assert raised > 10


@pytest.mark.parametrize("cls", CLASSES)
def test_what_is_evicted_is_released_at_once_and_cycles_later(cls):
    class Value:
        pass

    cache = make(cls, 3)
    refs = []
    for key in range(9):
        value = Value()
        refs.append(weakref.ref(value))
        cache[key] = value
        value = None
        assert sum(ref() is not None for ref in refs) == len(cache) == min(key + 1, 3)
    cache["own"] = cache
    gone = weakref.ref(cache)
    del cache
    gc.collect()
    assert gone() is None and all(ref() is None for ref in refs)


TIMED = [compat.TTLCache, compat.TLRUCache]


@pytest.mark.parametrize("cls", TIMED)
def test_iteration_bears_changes_where_items_expire(cls):
    cache = make(cls, 5)
    clock = cache.timer
    cache["a"] = 1
    Clock.now = 5
    try:
        cache.update(b=2, c=3)
        Clock.now = 12
        assert [(key, len(cache)) for key in cache] == [("b", 2), ("c", 2)]
        for key in cache:
            del cache[key]
        assert not cache and clock() == 12
    finally:
        Clock.now = 0


@pytest.mark.parametrize("cls", TIMED)
def test_threads_iterate_where_items_expire(cls):
    def work(seed):
        for round_ in range(2000):
            if seed % 2:
                list(cache)
            # Another thread may be quicker to remove a key, as in cachetools.
            with contextlib.suppress(KeyError):
                cache[round_ % 20] = seed
                cache.pop((round_ + 7) % 20, None)

    cache = make(cls, 10)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        assert in_threads(8, work) == [None] * 8
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.parametrize("cls", [cls for cls in CLASSES if cls not in TIMED])
def test_iteration_tells_of_changes(cls):
    cache = make(cls, 5)
    cache.update({1: 1, 2: 2, 3: 3})
    assert list(cache.items()) == [(1, 1), (2, 2), (3, 3)]
    with pytest.raises(RuntimeError, match="changed size"):
        for key in cache:
            del cache[key]
    assert cache == dict(cache) and cache != {}
    with pytest.raises(TypeError):
        hash(cache)


def test_a_choice_that_another_thread_overtakes_is_made_again():
    calls = []

    def choice(keys):
        calls.append(len(keys))
        if len(calls) == 1:
            in_threads(1, lambda _: cache.pop(3))
            return keys[2]
        return keys[0]

    cache = compat.RRCache(3, choice)
    cache.update({1: 1, 2: 2, 3: 3})
    cache[4] = 4
    cache[5] = 5
    assert calls[:2] == [3, 2] and len(cache) <= 3 and cache[5] == 5


@pytest.mark.parametrize("cls", CLASSES)
def test_threads_do_not_break_it(cls):
    def work(seed):
        rng = random.Random(seed)
        for _ in range(1500):
            key = rng.randrange(30)
            try:
                rng.choice([cache.get, lambda key: cache.__setitem__(key, key), cache.pop])(key)
            except KeyError:
                pass

    cache = make(cls, 10)
    assert in_threads(4, work) == [None] * 4
    items, order = cache._dump()
    assert len(items) == len(cache) <= 10 and sorted(order) == list(range(len(items)))
    assert all(key == value for key, value, *_ in items)


def test_another_thread_may_run_while_deadlines_are_compared():
    class Slow(float):
        def __lt__(self, other):
            time.sleep(0)
            return float.__lt__(self, other)

    now = itertools.count()
    cache = compat.TLRUCache(50, lambda key, value, now: Slow(now + key), timer=lambda: next(now))

    def work(seed):
        rng = random.Random(seed)
        for _ in range(300):
            cache[rng.randrange(100)] = seed

    assert in_threads(4, work) == [None] * 4
    assert len(cache.expire(10**9)) <= 50 and not cache


class Pickled(compat.LRUCache):
    """A class whose state does not mention the items, as with a lock of its own."""

    def __init__(self, maxsize):
        super().__init__(maxsize)
        self.lock = threading.Lock()

    def __getstate__(self):
        return {key: value for key, value in self.__dict__.items() if key != "lock"}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.lock = threading.Lock()


def test_pickles():
    cache = Pickled(3)
    cache.update({1: 1, 2: 2, 3: 3})
    cache[1]
    for again in (pickle.loads(pickle.dumps(cache)), copy.deepcopy(cache)):
        assert again.lock is not cache.lock and again.maxsize == 3
        assert [again.popitem()[0] for _ in range(3)] == [2, 3, 1]
    cache["own"] = cache
    again = pickle.loads(pickle.dumps(cache))
    assert again["own"] is again


def test_damaged_state_is_refused():
    cache = compat.LRUCache(3)
    for order in ([0], [0, 0], [0, 7], [0, 1, 1]):
        with pytest.raises(ValueError, match="damaged"):
            cache._load([(1, 1, 1, None, 1), (2, 2, 1, None, 1)], order)


def test_popitem_that_removes_nothing_is_an_error():
    class Stuck(compat.LRUCache):
        def popitem(self):
            return None, None

    cache = Stuck(1)
    cache[1] = 1
    with pytest.raises(RuntimeError, match="removes nothing"):
        cache[2] = 2


def test_ttl_order_of_expiry_is_that_of_assignment():
    cache = make(compat.TTLCache, 9)
    for key in "abc":
        cache[key] = key
        advance(1)
    cache["a"] = "again"
    assert list(cache) == ["b", "c", "a"]
    advance(8)
    assert cache.expire() == [("b", "b")] and cache.get("c") == "c"


def advance(by):
    Clock.now += by


def test_a_comparison_of_times_that_raises_leaves_the_items():
    class Time:
        def __add__(self, other):
            return self

        def __lt__(self, other):
            if fails:
                raise ZeroDivisionError
            return True

    fails = False
    cache = compat.TTLCache(3, ttl=1, timer=Time)
    cache["a"] = 1
    fails = True
    for use in (cache.expire, cache.__len__, functools.partial(cache.get, "a")):
        with pytest.raises(ZeroDivisionError):
            use()
    fails = False
    assert cache["a"] == 1 and len(cache) == 1
