"""Without LiteLLM, every way in says what to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.bare import bare_python, run_bare


@pytest.fixture(scope="module")
def without_litellm(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return bare_python(tmp_path_factory.mktemp("library"))


def test_the_import_names_the_command(without_litellm: list[str], tmp_path: Path) -> None:
    done = run_bare(without_litellm, "import segue.provider", tmp_path)
    assert done.returncode == 1
    assert "-m pip install '.[litellm]'" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("words", [["proxy"], ["proxy", "config"]])
def test_the_command_names_the_command(without_litellm: list[str], tmp_path: Path, words: list[str]) -> None:
    code = f"from segue.cli.main import run; sys.exit(run({words!r}))"
    done = run_bare(without_litellm, code, tmp_path)
    assert done.returncode == 5
    assert "LiteLLM is not installed" in done.stderr
    assert "-m pip install '.[proxy]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_nothing_else_imports_litellm(tmp_path: Path) -> None:
    """Importing it takes seconds: only calls of its models pay for that."""
    parts = ("segue.runtime.wiring", "segue.runtime.session", "segue.features.litellm.command")
    slow = {"litellm", "segue.features.litellm.library"}
    code = f"import sys, {', '.join(parts)}; print({slow} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"
