"""`frazil.lru_cache` against functools', beyond CPython's own tests (`tests/upstream`)."""

import functools
import gc
import random
import weakref

import pytest

import frazil
from threads import in_threads


class Key:
    """A key that Python compares: how is up to `compare`."""

    def __init__(self, name, compare=None, hash_=None):
        self.name = name
        self.compare = compare
        self.hash = hash(name) if hash_ is None else hash_

    def __hash__(self):
        return self.hash

    def __eq__(self, other):
        if self.compare:
            self.compare()
        return self.name == other.name


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("maxsize", [None, 0, 1, 7, 50])
def test_hits_and_misses_as_functools(maxsize, typed):
    def orig(*args, **kwargs):
        return args, kwargs

    ours, theirs = (c(maxsize, typed)(orig) for c in (frazil.lru_cache, functools.lru_cache))
    rng = random.Random(5)
    atoms = [0, 1, True, 1.0, "1", b"1", (1, 2), (1.0, 2), None, -1, -2, 2**61 - 1, 2**61]
    for step in range(4000):
        args = tuple(rng.choice(atoms) for _ in range(rng.choice([0, 1, 1, 1, 2, 3])))
        kwargs = {name: rng.choice(atoms) for name in rng.sample("ab", rng.choice([0, 0, 0, 1, 2]))}
        assert ours(*args, **kwargs) == theirs(*args, **kwargs)
        assert tuple(ours.cache_info()) == tuple(theirs.cache_info()), step
        if step % 1000 == 999:
            ours.cache_clear()
            theirs.cache_clear()


def test_keys_of_one_hash_are_told_apart():
    calls = []

    @frazil.lru_cache(maxsize=100)
    def f(key):
        calls.append(key.name)
        return key.name

    keys = [Key(str(i), hash_=1) for i in range(50)]
    for key in keys + keys:
        assert f(Key(key.name, hash_=1)) == key.name
    assert len(calls) == 50


def test_errors_of_hash_and_eq_pass_through():
    @frazil.lru_cache
    def f(key):
        return key.name

    def fail():
        raise ZeroDivisionError

    f(Key("a", compare=fail))
    with pytest.raises(ZeroDivisionError):
        f(Key("a"))
    with pytest.raises(TypeError, match="unhashable"):
        f([])
    assert f.cache_info().currsize == 1


def test_eq_may_clear_and_fill_the_cache():
    @frazil.lru_cache(maxsize=3)
    def f(key):
        return getattr(key, "name", key)

    def disturb():
        f.cache_clear()
        for number in range(10):
            f(number)

    f(Key("a", compare=disturb))
    assert f(Key("a")) == "a"
    assert f.cache_info().currsize == 3


def test_eq_that_removes_what_it_compares():
    """The stored key is gone by the time that it is found equal: a miss."""

    @frazil.lru_cache(maxsize=3)
    def f(key):
        return object()

    first = f(Key("a", compare=lambda: f.cache_clear()))
    assert f(Key("a")) is not first


def test_a_destructor_may_call_back():
    class Value:
        def __del__(self):
            f(-1)

    @frazil.lru_cache(maxsize=1)
    def f(number):
        return Value() if number >= 0 else None

    for number in range(20):
        f(number)
    f.cache_clear()
    assert f.cache_info().currsize <= 1


def test_what_is_evicted_is_released_at_once():
    class Value:
        pass

    @frazil.lru_cache(maxsize=2)
    def f(number):
        return Value()

    refs = [weakref.ref(f(number)) for number in range(5)]
    assert [ref() is None for ref in refs] == [True, True, True, False, False]
    f.cache_clear()
    assert all(ref() is None for ref in refs)


def test_cycles_are_collected():
    def build():
        @frazil.lru_cache
        def f(key):
            return (f, key)

        f(Key("a"))
        f.own = f
        return weakref.ref(f)

    gc.collect()
    refs = [build() for _ in range(3)]
    gc.collect()
    assert all(ref() is None for ref in refs)


def test_threads_with_keys_that_python_compares():
    @frazil.lru_cache(maxsize=20)
    def f(key):
        return key.name

    def work(seed):
        rng = random.Random(seed)
        for _ in range(3000):
            name = str(rng.randrange(40))
            assert f(Key(name)) == name

    assert in_threads(4, work) == [None] * 4
    info = f.cache_info()
    assert info.currsize == 20 and info.hits + info.misses == 12000


def test_settings_that_are_wrong():
    for wrong in ("10", 1.5, []):
        with pytest.raises(TypeError):
            frazil.lru_cache(wrong)
    with pytest.raises(TypeError):
        frazil.lru_cache(10)(3)


def test_a_bound_method_and_the_class_attribute():
    class Shop:
        @frazil.lru_cache(maxsize=4)
        def price(self, name):
            """Of one piece."""
            return len(name)

    shop = Shop()
    assert shop.price("pear") == 4 and shop.price(name="pear") == 4
    bound = shop.price
    assert bound("pear") == 4 and bound.__self__ is shop
    assert Shop.price.cache_info().hits == 1
    assert Shop.price.__doc__ == "Of one piece." and Shop.price.__wrapped__(shop, "fig") == 3
    assert list(map(Shop.price, [shop, shop], ["fig", "fig"])) == [3, 3]
    assert Shop.price.__call__(shop, "fig") == 3
