"""Runs cachetools 8.0.1's own tests of its six classes on `frazil.compat`.

The tests come from cachetools' source distribution, fetched by pip unless `--source` names an
unpacked one. They are imported as they are, with a module `cachetools` whose classes are
`frazil.compat`'s.

    python tests/upstream/cachetools.py [--source FOLDER]
"""

import argparse
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import types
import unittest

from outcome import report

VERSION = "8.0.1"

# Of the classes: one file each.
FILES = ["test_fifo", "test_lfu", "test_lru", "test_rr", "test_tlru", "test_ttl"]

# Tests that ours need not pass, each with its reason. None.
EXCEPTIONS = {}


def fetch(folder):
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--no-binary", ":all:", "--dest", folder, f"cachetools=={VERSION}"]
    subprocess.run(command, check=True)
    with tarfile.open(pathlib.Path(folder) / f"cachetools-{VERSION}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return pathlib.Path(folder) / f"cachetools-{VERSION}"


def substitute():
    import frazil.compat

    module = types.ModuleType("cachetools")
    for name in frazil.compat.__all__:
        setattr(module, name, getattr(frazil.compat, name))
    sys.modules["cachetools"] = module


def run(source):
    # This folder has a file of that name.
    here = str(pathlib.Path(__file__).parent)
    sys.path[:] = [entry for entry in sys.path if entry != here]
    sys.path.insert(0, str(source))
    substitute()
    suite = unittest.TestSuite()
    for name in FILES:
        suite.addTests(unittest.defaultTestLoader.loadTestsFromName(f"tests.{name}"))
    return report(f"cachetools {VERSION}'s tests on frazil.compat", suite, EXCEPTIONS)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=pathlib.Path)
    source = parser.parse_args().source
    if source:
        return run(source)
    with tempfile.TemporaryDirectory() as folder:
        return run(fetch(folder))


if __name__ == "__main__":
    sys.exit(main())
