"""Change the code in small ways and see whether a test notices: `python -m bench.mutants [--most N] [PART…]`.

Every mutant is one edit of one file: a comparison turned round, a condition negated, a number off by one, a
statement left out. A mutant that no test notices is printed: it is a test that is missing.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from segue.proof.mutation.mutate import Mutant, make_mutants

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


def mutants_of(part: str, most: int) -> tuple[Mutant, ...]:
    """Return mutants of a part, drawn by lot but always the same ones."""
    paths = sorted((ROOT / "src" / "segue" / part).rglob("*.py"))
    return make_mutants(
        {str(path.relative_to(ROOT)): ("", path.read_text("utf-8")) for path in paths}, part, most
    ).others


def is_noticed(part: str, mutant: Mutant) -> bool:
    """Run the tests of the part on the changed code; too long counts as noticed."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        (Path(folder) / mutant.path).write_bytes(mutant.text)
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *PARTS[part]]
        environment = {**os.environ, "PYTHONPATH": str(source), "HYPOTHESIS_PROFILE": "ci"}
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, timeout=_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return True
        return done.returncode != 0


def main() -> None:
    """Try mutants and print the score."""
    parser = argparse.ArgumentParser(prog="python -m bench.mutants", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="which parts (default: all)")
    parser.add_argument("--most", type=int, default=30, help="mutants per part (default: 30)")
    options = parser.parse_args()
    for part in options.parts or PARTS:
        chosen = mutants_of(part, options.most)
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            noticed = list(threads.map(partial(is_noticed, part), chosen))
        print(f"{part}: {sum(noticed)} of {len(chosen)} mutants noticed", flush=True)
        for mutant, seen in zip(chosen, noticed, strict=True):
            if not seen:
                print(f"  {mutant.shown}")


if __name__ == "__main__":
    main()
