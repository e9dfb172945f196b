"""The examples in docstrings run."""

import doctest

import frazil
import pytest


@pytest.mark.parametrize("thing", [frazil.Cache, frazil.CacheStats, frazil.CacheRecording])
def test_examples_run(thing):
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    examples = 0
    for test in finder.find(thing, thing.__name__, module=frazil, globs={}):
        runner.run(test)
        examples += len(test.examples)
    assert runner.failures == 0
    assert examples > 0 or thing is not frazil.Cache


def test_everything_public_is_documented():
    for thing in (frazil.Cache, frazil.CacheStats, frazil.CacheRecording):
        assert thing.__doc__
        for name, member in vars(thing).items():
            assert name.startswith("_") or member.__doc__, f"{thing.__name__}.{name}"
