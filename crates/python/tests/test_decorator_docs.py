"""The examples in docstrings of decorators and of `frazil.compat` run, and the pages'."""

import doctest
import operator
import pathlib
import re

import pytest

import frazil
import frazil.compat

PAGES = pathlib.Path(__file__).parents[3] / "docs"


def run(test):
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(test)
    assert runner.failures == 0 and test.examples


@pytest.mark.parametrize("name", ["lru_cache", "cached", "compat", *frazil.compat.__all__,
                                  "TTLCache.expire", "TLRUCache.expire"])
def test_examples_run(name):
    of_compat = name.partition(".")[0] in frazil.compat.__all__
    thing = operator.attrgetter(name)(frazil.compat if of_compat else frazil)
    parser = doctest.DocTestParser()
    run(parser.get_doctest(thing.__doc__, {}, name, None, None))


def test_everything_public_of_compat_is_documented():
    for name in frazil.compat.__all__:
        for attribute, member in vars(getattr(frazil.compat, name)).items():
            assert attribute.startswith("_") or member.__doc__, f"{name}.{attribute}"


@pytest.mark.parametrize("page, needs", [
    ("python-moving.md", []),
    ("python.md", ["numpy", "pyarrow"]),
])
def test_programs_of_the_pages_run(page, needs, tmp_path, monkeypatch):
    for package in needs:
        pytest.importorskip(package, reason=f"NO {package}: the programs of {page} not run")
    monkeypatch.chdir(tmp_path)
    ids = "".join(f"{it * it % 997}\n" for it in range(20_000))
    pathlib.Path("requests.csv").write_text(f"id\n{ids}")
    programs = re.findall(r"```python\n(.*?)```", (PAGES / page).read_text(), re.S)
    assert programs
    for number, program in enumerate(programs):
        exec(compile(program, f"{page} {number}", "exec"), {})
