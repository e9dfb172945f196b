"""`frazil.cached`: one call a key, for threads and for tasks."""

import asyncio
import copy
import functools
import gc
import os
import pickle
import sys
import threading
import time
import weakref

import pytest

import frazil
from frazil._frazil import CallKey
from frazil._frazil import _pass as pass_seconds
from patience import PATIENCE, until
from threads import in_threads


def waiting(function, count):
    """Whether so many callers wait in the one flight of a function."""
    flights = list(calls_of(function).flights.values())
    return len(flights) == 1 and len(flights[0]._waiters) == count


def calls_of(function):
    cells = dict(zip(function.cache_clear.__code__.co_freevars, function.cache_clear.__closure__))
    return cells["calls"].cell_contents


def test_results_are_kept_and_the_rest_is_as_functools():
    calls = []

    @frazil.cached(maxsize=10)
    def f(x, *, y=0):
        """Adds."""
        calls.append(x)
        return x + y

    assert [f(1), f(1), f(1, y=1), f(1, y=1), f("a", y="b")] == [1, 1, 2, 2, "ab"]
    assert calls == [1, 1, "a"]
    assert f.cache_info() == (2, 3, 10, 3)
    assert f.__doc__ == "Adds." and f.__wrapped__(2) == 2
    assert f.cache_parameters()["policy"] == "mobius"
    del f.cache[f.cache_key(1, y=1)]
    f(1, y=1)
    assert calls == [1, 1, "a", 2, 1]
    f.cache_clear()
    assert f.cache_info().currsize == 0


@pytest.mark.parametrize("policy", ["mobius", "lru", "fifo", "sieve", "s3-fifo", "w-tinylfu"])
def test_the_size_is_bounded(policy):
    @frazil.cached(maxsize=10, policy=policy)
    def f(x):
        return x

    assert [f(x % 30) for x in range(300)] == [x % 30 for x in range(300)]
    assert f.cache_info().currsize <= 10


def test_typed_key_and_bare_use():
    typed = frazil.cached(typed=True)(lambda x: type(x))
    assert (typed(1), typed(1.0), typed(True)) == (int, float, bool)
    lower = frazil.cached(key=lambda word, **_: word.lower())(lambda word, **_: word)
    assert (lower("A"), lower("a", to="b")) == ("A", "A")
    assert frazil.cached(lambda x: x)(3) == 3


def test_wrong_settings_are_told_where_they_are_given():
    for wrong in (-1, float("nan")):
        with pytest.raises(ValueError):
            frazil.cached(maxsize=wrong)
    with pytest.raises(ValueError, match="mobius"):
        frazil.cached(policy="mobiu")
    with pytest.raises(TypeError):
        frazil.cached(key="name")


def test_methods():
    class Shop:
        def __init__(self, rate):
            self.rate = rate

        @frazil.cached(maxsize=10)
        def price(self, name):
            return self.rate * len(name)

        @frazil.cached(maxsize=10)
        async def later(self, name):
            return self.rate * len(name)

        @classmethod
        @frazil.cached
        def kind(cls, name):
            return cls.__name__ + name

    one, two = Shop(1), Shop(2)
    assert [one.price("fig"), two.price("fig"), one.price("fig")] == [3, 6, 3]
    assert Shop.price.cache_info()[:2] == (1, 2)
    assert asyncio.run(one.later("fig")) == 3 and asyncio.run(two.later("fig")) == 6
    assert Shop.kind("x") == one.kind("x") == "Shopx"


def test_ttl():
    calls = []
    f = frazil.cached(ttl=1000)(calls.append)
    f(1)
    pass_seconds(999)
    f(1)
    assert calls == [1]
    pass_seconds(2)
    f(1)
    assert calls == [1, 1]


def test_200_threads_make_one_call():
    calls = []

    @frazil.cached(maxsize=10)
    def f(x):
        calls.append(x)
        until(lambda: waiting(f, 199))
        return object()

    results = in_threads(200, lambda _: f("key"))
    assert len(calls) == 1 and len(set(map(id, results))) == 1


def test_10_000_tasks_make_one_call():
    calls = []

    @frazil.cached(maxsize=10)
    async def f(x):
        calls.append(x)
        while not waiting(f, 9_999):
            await asyncio.sleep(0)
        return object()

    async def main():
        return await asyncio.gather(*(f("key") for _ in range(10_000)))

    assert len(set(map(id, asyncio.run(main())))) == 1
    assert len(calls) == 1


def test_tasks_of_several_loops_make_one_call():
    calls = []

    @frazil.cached(maxsize=10)
    async def f(x):
        calls.append(x)
        while not waiting(f, 39):
            await asyncio.sleep(0.001)
        return object()

    async def main():
        return await asyncio.gather(*(f("key") for _ in range(10)))

    results = in_threads(4, lambda _: asyncio.run(main()))
    assert len({id(value) for values in results for value in values}) == 1
    assert len(calls) == 1


def test_many_keys_among_threads():
    calls = []

    @frazil.cached(maxsize=None)
    def f(x):
        calls.append(x)
        time.sleep(0.0001)
        return x

    in_threads(8, lambda _: [f(x) for x in range(200)])
    assert sorted(calls) == list(range(200))


@pytest.mark.parametrize("shared", [True, False])
def test_errors_of_threads(shared):
    calls = []

    @frazil.cached(maxsize=10, share_errors=shared)
    def f(x):
        calls.append(x)
        if len(calls) == 1:
            until(lambda: waiting(f, 9))
        raise KeyError(x)

    errors = in_threads(10, lambda _: f("key"))
    assert all(type(error) is KeyError for error in errors)
    assert len(calls) == (1 if shared else 10)
    with pytest.raises(KeyError):
        f("key")
    assert not calls_of(f).flights


@pytest.mark.parametrize("shared", [True, False])
def test_errors_of_tasks(shared):
    calls = []

    @frazil.cached(maxsize=10, share_errors=shared)
    async def f(x):
        calls.append(x)
        await asyncio.sleep(0)
        raise KeyError(x)

    async def main():
        return await asyncio.gather(*(f("key") for _ in range(10)), return_exceptions=True)

    errors = asyncio.run(main())
    assert all(type(error) is KeyError for error in errors)
    assert len(calls) == (1 if shared else 10)


def test_after_an_error_a_waiter_may_succeed():
    calls = []

    @frazil.cached(share_errors=False)
    def f(x):
        calls.append(x)
        if len(calls) == 1:
            until(lambda: waiting(f, 9))
            raise OSError
        return 7

    results = in_threads(10, lambda _: f("key"))
    assert sorted(map(str, results)) == ["", *["7"] * 9] and len(calls) == 2


def test_an_interrupted_thread_hands_over():
    calls = []

    @frazil.cached(maxsize=10)
    def f(x):
        calls.append(x)
        if len(calls) == 1:
            until(lambda: waiting(f, 4))
            raise KeyboardInterrupt
        return 7

    results = in_threads(5, lambda _: f("key"))
    assert sum(result == 7 for result in results) == 4 and len(calls) == 2


def interrupted(work, at):
    """Runs `work`, interrupted at the moment of this number at which a signal's handler could run
    in the modules of `cached`: when a function begins, and when one of C's has returned. Returns
    whether there was such a moment, and the result."""
    count = 0

    def profile(frame, event, _):
        nonlocal count
        ours = os.path.basename(frame.f_code.co_filename) in ("_flights.py", "_cached.py")
        if ours and event in ("call", "c_return"):
            count += 1
            if count == at:
                sys.setprofile(None)
                raise KeyboardInterrupt

    sys.setprofile(profile)
    try:
        return False, work()
    except KeyboardInterrupt:
        return True, None
    finally:
        sys.setprofile(None)


def at_every_moment(scenario):
    at = 1
    while scenario(at):
        at += 1
    # Else nothing was interrupted.
    assert at > 20


def test_a_leader_that_is_interrupted_at_any_moment_leaves_nobody_waiting():
    def scenario(at):
        begun = threading.Event()

        @frazil.cached(maxsize=10)
        def f(x):
            if threading.current_thread() is threading.main_thread() and not begun.is_set():
                begun.set()
                until(lambda: waiting(f, 2))
            return 7

        results = []
        others = [
            threading.Thread(target=lambda: (begun.wait(PATIENCE), results.append(f("key"))), daemon=True)
            for _ in range(2)
        ]
        for thread in others:
            thread.start()
        was_interrupted, _ = interrupted(lambda: f("key"), at)
        begun.set()
        for thread in others:
            thread.join(PATIENCE)
        assert results == [7, 7], f"at moment {at}"
        assert not calls_of(f).flights, f"at moment {at}"
        assert f("key") == 7
        return was_interrupted

    at_every_moment(scenario)


def test_a_waiter_that_is_interrupted_at_any_moment_hands_over():
    def scenario(at):
        begun, go, calls = threading.Event(), threading.Event(), []

        @frazil.cached(maxsize=10, share_errors=False)
        def f(x):
            calls.append(x)
            if len(calls) == 1:
                begun.set()
                go.wait(PATIENCE)
                raise ZeroDivisionError
            return 7

        results = []

        def call():
            try:
                results.append(f("key"))
            except ZeroDivisionError:
                # The one that waits longest by now is the main thread, unless it was interrupted.
                results.append(f("key"))

        def end_first():
            until(lambda: waiting(f, 1) or done)
            go.set()

        done = []
        first = threading.Thread(target=call, daemon=True)
        first.start()
        begun.wait(PATIENCE)
        ender = threading.Thread(target=end_first, daemon=True)
        ender.start()
        was_interrupted, _ = interrupted(lambda: f("key"), at)
        done.append(True)
        for thread in (first, ender):
            thread.join(PATIENCE)
        assert results == [7], f"at moment {at}"
        assert not calls_of(f).flights, f"at moment {at}"
        assert f("key") == 7
        return was_interrupted

    at_every_moment(scenario)


def test_a_task_that_is_interrupted_at_any_moment_leaves_nobody_waiting():
    def scenario(at):
        @frazil.cached(maxsize=10)
        async def f(x):
            await asyncio.sleep(0)
            return 7

        async def leader():
            return await f("key")

        was_interrupted, _ = interrupted(lambda: asyncio.run(leader()), at)
        assert not calls_of(f).flights, f"at moment {at}"
        assert asyncio.run(asyncio.wait_for(f("key"), PATIENCE)) == 7
        return was_interrupted

    at_every_moment(scenario)


def test_a_cancelled_task_hands_over():
    calls = []

    @frazil.cached(maxsize=10)
    async def f(x):
        calls.append(x)
        await asyncio.sleep(0.001 if len(calls) > 1 else 1000)
        return 7

    async def main():
        tasks = [asyncio.create_task(f("key")) for _ in range(6)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        # One that waits, then the leader, then the new leader before it has begun.
        tasks[3].cancel()
        tasks[0].cancel()
        await asyncio.sleep(0)
        tasks[1].cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    results = asyncio.run(asyncio.wait_for(main(), PATIENCE))
    cancelled = [isinstance(result, asyncio.CancelledError) for result in results]
    assert cancelled == [True, True, False, True, False, False]
    assert [result for result in results if result == 7] == [7] * 3
    assert not calls_of(f).flights


def test_when_all_are_cancelled_the_next_caller_begins_again():
    @frazil.cached(maxsize=10)
    async def f(x):
        await asyncio.sleep(1000 if slow else 0)
        return 7

    async def main():
        nonlocal slow
        tasks = [asyncio.create_task(f("key")) for _ in range(3)]
        while not waiting(f, 2):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        slow = False
        return await asyncio.wait_for(f("key"), PATIENCE)

    slow = True
    assert asyncio.run(main()) == 7


def test_a_loop_that_ended_hands_over_to_another():
    """Its tasks are cancelled as `asyncio.run` ends; a task of another loop takes the call up."""
    begun = threading.Event()

    @frazil.cached(maxsize=10)
    async def f(x):
        if not begun.is_set():
            begun.set()
            await asyncio.sleep(1000)
        return 7

    async def first():
        task = asyncio.create_task(f("key"))
        while not waiting(f, 1):
            await asyncio.sleep(0.001)
        del task

    def second():
        begun.wait(PATIENCE)
        return asyncio.run(asyncio.wait_for(f("key"), PATIENCE))

    results = in_threads(2, lambda index: second() if index else asyncio.run(first()))
    assert results == [None, 7]


def test_a_call_within_its_own_call():
    depth = 0

    @frazil.cached(maxsize=10)
    def f(x):
        nonlocal depth
        depth += 1
        return f(x) + 1 if depth < 3 else 0

    assert f("key") == 2 and not calls_of(f).flights

    @frazil.cached(maxsize=10)
    async def g(x):
        nonlocal depth
        depth += 1
        # A task has a context of its own, which knows what leads to it.
        return await asyncio.create_task(g(x)) + 1 if depth < 6 else 0

    assert asyncio.run(asyncio.wait_for(g("key"), PATIENCE)) == 2


def test_threads_that_would_wait_for_each_other():
    both = threading.Barrier(2)

    @frazil.cached(maxsize=10)
    def f(x):
        if not met.is_set():
            both.wait(PATIENCE)
            met.set()
            return f(1 - x) + 1
        return 10

    met = threading.Event()
    results = in_threads(2, f)
    # One waits for the other, which calls the function itself.
    assert sorted(results) == [11, 12] and not calls_of(f).flights


def test_a_result_asked_for_before_a_clear_is_not_kept():
    begun, go = threading.Event(), threading.Event()

    @frazil.cached(maxsize=10)
    def f(x):
        begun.set()
        go.wait(PATIENCE)
        return object()

    def clear(_):
        begun.wait(PATIENCE)
        f.cache_clear()
        go.set()

    results = in_threads(2, lambda index: clear(index) if index else f("key"))
    assert f.cache_info().currsize == 0 and f("key") is not results[0]


def test_hash_and_eq_that_raise():
    class Key:
        def __hash__(self):
            return 1

        def __eq__(self, other):
            raise ZeroDivisionError

    f = frazil.cached(maxsize=10)(lambda key: 7)
    with pytest.raises(TypeError):
        f([])
    assert f(Key()) == 7
    with pytest.raises(ZeroDivisionError):
        f(Key())
    assert not calls_of(f).flights


class Key:
    def __init__(self, name):
        self.name, self.hashed = name, 0

    def __hash__(self):
        self.hashed += 1
        return 5

    def __eq__(self, other):
        return self.name == other.name


def test_a_key_is_hashed_once_a_call():
    @frazil.cached(maxsize=2)
    def f(key):
        return key.name

    @frazil.cached(maxsize=2, key=lambda key: key)
    async def g(key):
        await asyncio.sleep(0)
        return key.name

    for name in "aabcda":
        one, other = Key(name), Key(name)
        assert f(one) == name == asyncio.run(g(other))
        assert one.hashed == other.hashed == 1


@pytest.mark.parametrize("shared", [True, False])
def test_an_error_is_released_with_its_arguments_at_once(shared):
    class Argument:
        pass

    @frazil.cached(share_errors=shared)
    def f(argument):
        raise ZeroDivisionError

    @frazil.cached(share_errors=shared)
    async def g(argument):
        raise ZeroDivisionError

    async def call(argument):
        with pytest.raises(ZeroDivisionError):
            await g(argument)

    gc.collect()
    gc.disable()
    try:
        argument = Argument()
        gone = weakref.ref(argument)
        with pytest.raises(ZeroDivisionError):
            f(argument)
        del argument
        assert gone() is None
        argument = Argument()
        gone = weakref.ref(argument)
        asyncio.run(call(argument))
        del argument
        assert gone() is None
    finally:
        gc.enable()


def test_an_error_that_callers_share_is_released_at_once():
    class Error(Exception):
        pass

    begun = threading.Event()

    @frazil.cached
    def f(x):
        begun.set()
        until(lambda: waiting(f, 1))
        raise Error

    def call(index):
        if index:
            begun.wait(PATIENCE)
        try:
            f(1)
        except Error as error:
            return weakref.ref(error)

    gc.collect()
    gc.disable()
    try:
        one, other = in_threads(2, call)
        until(lambda: one() is None and other() is None)
    finally:
        gc.enable()


def test_functions_and_results_are_collected():
    class Value:
        pass

    def build():
        @frazil.cached(maxsize=10)
        def f(x):
            return f, Value()

        return weakref.ref(f), weakref.ref(f(1)[1])

    refs = build()
    gc.collect()
    assert [ref() for ref in refs] == [None, None]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_process_does_not_wait_for_threads_of_its_parent():
    begun, go = threading.Event(), threading.Event()

    @frazil.cached(maxsize=10)
    def f(x):
        begun.set()
        if os.getpid() == parent:
            go.wait(PATIENCE)
        return 7

    parent = os.getpid()
    thread = threading.Thread(target=f, args=("key",))
    thread.start()
    begun.wait(PATIENCE)
    child = os.fork()
    if not child:
        os._exit(f("key"))
    end, status = time.monotonic() + PATIENCE, (0, 0)
    while status[0] == 0 and time.monotonic() < end:
        status = os.waitpid(child, os.WNOHANG)
        time.sleep(0.001)
    go.set()
    thread.join()
    if status[0] == 0:
        os.kill(child, 9)
        os.waitpid(child, 0)
    assert status == (child, 7 << 8)


@frazil.cached
def by_name():
    return object()


def test_a_copy_is_the_function_and_a_pickle_its_name():
    for copied in (copy.copy(by_name), copy.deepcopy(by_name), pickle.loads(pickle.dumps(by_name))):
        assert copied is by_name


def test_is_a_coroutine_function_if_the_function_is():
    import inspect

    @frazil.cached
    async def f(x):
        return x

    assert inspect.iscoroutinefunction(f)
    assert asyncio.run(f(3)) == 3 and f.cache_info().currsize == 1


def test_a_partial_and_a_builtin():
    assert frazil.cached(functools.partial(pow, 2))(3) == 8
    assert frazil.cached(len)("abc") == 3


def test_a_caller_that_looked_before_the_flight_ended_and_boards_after():
    calls = []
    f = frazil.cached(maxsize=10)(calls.append)
    f(1)
    # What the native half calls when it has found nothing.
    assert calls_of(f).call(CallKey(f.cache_key(1)), (1,), None) is None
    assert calls == [1] and not calls_of(f).flights


def test_a_wait_that_is_over_is_forgotten():
    begun = threading.Event()

    @frazil.cached(maxsize=10)
    def inner(x):
        begun.set()
        until(lambda: waiting(inner, 1))
        return x

    @frazil.cached(maxsize=10)
    def outer(x):
        begun.wait(PATIENCE)
        inner(x)
        return [flight.waits_for for flight in calls_of(outer).flights.values()]

    assert in_threads(2, lambda index: outer(1) if index else inner(1)) == [1, [[]]]
