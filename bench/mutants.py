"""Change the code in small ways and see whether a test notices: `python -m bench.mutants [--most N] [PART…]`.

Every mutant is one edit of one file: a comparison turned round, a condition negated, a number off by one, a
statement left out. A mutant that no test notices is printed: it is a test that is missing.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from segue.proof.mutants import COMPARISONS

ROOT = Path(__file__).resolve().parents[1]
PARTS = {
    "flow": ["tests/flow", "tests/runtime"],
    "proof": ["tests/proof/test_decide.py", "tests/proof/test_guard.py", "tests/proof/test_cheats.py"],
    "view": ["tests/view/test_run_view.py"],
    "store": [
        "tests/store/test_journal.py",
        "tests/parts/conformance/test_store.py",
        "tests/store/test_claim.py",
    ],
}
"""What is changed, and the tests that should notice."""

_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Mutant:
    """One edit of one file."""

    part: str
    path: Path
    place: int
    """The number of the changed node, in the order of a walk through the file."""
    line: int
    what: str

    def code(self) -> str:
        """Return the changed file."""
        tree = ast.parse((ROOT / self.path).read_text(encoding="utf-8"))
        _apply(list(ast.walk(tree))[self.place], self.what)
        return ast.unparse(ast.fix_missing_locations(tree))


def mutants_of(part: str) -> Iterator[Mutant]:
    """Return every mutant of a part."""
    for path in sorted((ROOT / "src" / "segue" / part).rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for place, node in enumerate(ast.walk(tree)):
            for what in _edits(node):
                yield Mutant(part, path.relative_to(ROOT), place, getattr(node, "lineno", 0), what)


def _edits(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield "comparison turned round"
    if isinstance(node, ast.If | ast.While):
        yield "condition negated"
    if isinstance(node, ast.BoolOp):
        yield "and/or exchanged"
    if isinstance(node, ast.Constant) and type(node.value) in (bool, int):
        yield "constant changed"
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Await | ast.Call):
        yield "statement left out"


def _apply(node: ast.AST, what: str) -> None:
    match node:
        case ast.Compare():
            node.ops = [COMPARISONS[type(node.ops[0])]()]
        case ast.If() | ast.While():
            node.test = ast.UnaryOp(ast.Not(), node.test)
        case ast.BoolOp():
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        case ast.Constant():
            node.value = not node.value if isinstance(node.value, bool) else int(str(node.value)) + 1
        case ast.Expr() if what == "statement left out":
            node.value = ast.Constant(None)


def is_noticed(mutant: Mutant) -> bool:
    """Run the tests of the part on the changed code; too long counts as noticed."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        (Path(folder) / mutant.path).write_text(mutant.code(), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *PARTS[mutant.part]]
        environment = {**os.environ, "PYTHONPATH": str(source), "HYPOTHESIS_PROFILE": "ci"}
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, timeout=_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return True
        return done.returncode != 0


def main() -> None:
    """Try mutants, drawn by lot but always the same ones, and print the score."""
    parser = argparse.ArgumentParser(prog="python -m bench.mutants", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="which parts (default: all)")
    parser.add_argument("--most", type=int, default=30, help="mutants per part (default: 30)")
    options = parser.parse_args()
    for part in options.parts or PARTS:
        known = list(mutants_of(part))
        chosen = random.Random(part).sample(known, min(options.most, len(known)))
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            noticed = list(threads.map(is_noticed, chosen))
        print(f"{part}: {sum(noticed)} of {len(chosen)} mutants noticed ({len(known)} there are)", flush=True)
        for mutant, seen in zip(chosen, noticed, strict=True):
            if not seen:
                print(f"  {mutant.path}:{mutant.line}: {mutant.what}")


if __name__ == "__main__":
    main()
