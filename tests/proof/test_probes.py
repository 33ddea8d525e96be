"""Questions with known answers that are asked in the process of the tests."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from segue.proof.runners.hooks import probes

WRAPPED = """
import functools
from hypothesis import given, strategies as st

def twice(function):
    @functools.wraps(function)
    def inner(*args):
        function(*args)
        function(*args)
    return inner

@given(st.integers())
def test_property(n):
    assert n == n

@twice
def test_twice():
    assert 1 + 1 == 2

def test_plain():
    assert 1 + 1 == 2

def test_silent():
    print(1)
"""


def misses(function: object) -> bool:
    return bool(probes.without_assertions(function))  # type: ignore[no-untyped-call]


def load(path: Path, optimised: int) -> ModuleType:
    path.write_text(WRAPPED)
    module = ModuleType(path.stem)
    exec(compile(WRAPPED, str(path), "exec", optimize=optimised), module.__dict__)
    return module


@pytest.mark.parametrize("name", ["test_property", "test_twice", "test_plain", "test_silent"])
def test_assertions_are_found_below_decorators(tmp_path: Path, name: str) -> None:
    module = load(tmp_path / "test_it.py", 0)
    assert not misses(getattr(module, name))


@pytest.mark.parametrize("name", ["test_property", "test_plain"])
def test_assertions_that_are_off_are_missed(tmp_path: Path, name: str) -> None:
    module = load(tmp_path / "test_it.py", 1)
    assert misses(getattr(module, name))
