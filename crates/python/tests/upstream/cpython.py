"""Runs `TestLRUC` of this interpreter's own `test.test_functools` on `frazil.lru_cache`.

The file is read as it is and compiled with one change: after `c_functools` is imported, its
`lru_cache` and `_CacheInfo` are Frazil's. An interpreter without its tests gets them from
`--lib FOLDER`, the `Lib` of a source tree of the same version.

    python tests/upstream/cpython.py
"""

import argparse
import importlib.util
import pathlib
import sys
import sysconfig
import unittest

from outcome import report

# Tests that ours need not pass, each with its reason. None.
EXCEPTIONS = {}


class Substituted:
    """`functools` with other members."""

    def __init__(self, module, **members):
        self.__dict__.update(vars(module))
        self.__dict__.update(members)


def load(lib):
    import frazil

    path = pathlib.Path(lib) / "test" / "test_functools.py"
    source = path.read_text()
    mark = "class TestLRU:"
    if source.count(mark) != 1:
        raise SystemExit(f"{path} is not as expected: no single `{mark}`")
    # What follows the mark sees the substitute; what precedes it is of no concern.
    source = source.replace(mark, f"c_functools = _substituted(c_functools)\n\n{mark}")
    spec = importlib.util.spec_from_loader("test.test_functools", loader=None)
    module = importlib.util.module_from_spec(spec)
    module.__file__ = str(path)
    members = {"lru_cache": frazil.lru_cache, "_CacheInfo": frazil.CacheInfo}
    module._substituted = lambda functools: Substituted(functools, **members)
    sys.modules["test.test_functools"] = module
    exec(compile(source, str(path), "exec"), vars(module))
    return module


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lib", default=sysconfig.get_path("stdlib"))
    lib = parser.parse_args().lib
    sys.path.insert(0, lib)
    module = load(lib)
    assert module.TestLRUC.module.lru_cache.__module__.startswith("frazil")
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(module.TestLRUC)
    return report("CPython's TestLRUC on frazil.lru_cache", suite, EXCEPTIONS)


if __name__ == "__main__":
    sys.exit(main())
