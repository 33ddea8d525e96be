"""Names and signatures of files, in several languages, without what functions do."""

from __future__ import annotations

import pytest

from segue.proof.interface import list_names

PYTHON = '''
LIMIT = 3
_secret = 1
def add(a, b=2) -> int:
    """Say a lot."""
    return a + b
@cached
def twice(a): return a * 2
class Box(Base):
    size: int = 3
    def __init__(self, x): self.x = x
    def _inner(self): pass
    def open(self, *, key=1): return key
def _hidden(): pass
'''
JAVASCRIPT = """
const f = (a, b) => a + b;
function g(a) { return 1 }
class A extends B { constructor(x) { this.x = x } go(a) { return 1 } #own() {} }
exports.h = function h(name) { throw 1 };
export const z = async (q) => { return 1 }
"""
GO = """package a
type Ledger struct { n int }
func (l *Ledger) Add(a int) error { return nil }
func hidden() {}
const Max = 3
"""


@pytest.mark.parametrize(
    ("path", "text", "names"),
    [
        (
            "a.py",
            PYTHON,
            [
                *("LIMIT", "def add(a, b=2) -> int", "def twice(a)", "class Box(Base)", "  size"),
                *("  def __init__(self, x)", "  def open(self, *, key=1)"),
            ],
        ),
        (
            "a.js",
            JAVASCRIPT,
            [
                *("f = (a, b)", "function g(a)", "class A extends B", "  constructor(x)", "  go(a)"),
                *("exports.h = function h(name)", "z = async (q)"),
            ],
        ),
        ("a.go", GO, ["Ledger", "func (l *Ledger) Add(a int) error", "Max"]),
        ("a.ts", "export function k(a: string): number { return 1 }", ["function k(a: string): number"]),
        (
            "A.java",
            "public class A { public int f(int a) { return 1; } }",
            ["public class A", "  public int f(int a)"],
        ),
        ("a.md", "# Title", []),
    ],
)
def test_names_and_signatures_are_listed_and_bodies_are_not(path: str, text: str, names: list[str]) -> None:
    assert list_names(path, text) == names
