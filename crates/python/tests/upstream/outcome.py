"""Runs a suite and says what passed, failed, or was excepted by name."""

import sys
import unittest


def report(title, suite, exceptions):
    """Prints the outcome; returns the exit status. An exception that passes is an error too."""
    names = [test.id().split(".", 2)[-1] for test in flatten(suite)]
    result = unittest.TextTestRunner(stream=sys.stderr, verbosity=1).run(suite)
    wrong = {}
    for test, trace in result.failures + result.errors:
        # A failed subtest names its test.
        name = getattr(test, "test_case", test).id().split(".", 2)[-1]
        wrong[name] = trace
    excepted = [name for name in wrong if name in exceptions]
    failed = [name for name in wrong if name not in exceptions]
    stale = [name for name in exceptions if name not in wrong]
    skipped = {test.id().split(".", 2)[-1]: reason for test, reason in result.skipped}
    passed = len(names) - len(wrong) - len(skipped)
    python = ".".join(map(str, sys.version_info[:3]))
    print(f"{title}, Python {python}: {len(names)} tests, {passed} passed, {len(failed)} failed,"
          f" {len(excepted)} excepted, {len(skipped)} skipped")
    for name in excepted:
        print(f"  excepted {name}: {exceptions[name]}")
    for name, reason in skipped.items():
        print(f"  skipped {name}: {reason}")
    for name in failed:
        print(f"  FAILED {name}")
    for name in stale:
        print(f"  PASSES, yet is named as an exception: {name}")
    return 1 if failed or stale or not names else 0


def flatten(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from flatten(test)
        else:
            yield test
