"""The exam with real programs: written by the other vendor beside the work, killed in the middle, unseen."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.cli.place import DEADLINE, until
from tests.proof.projects import DISCOVER
from tests.slow.agents.conftest import Model, environment, make_real, provider

PLAN = """\
## Task 1
Add `double(x)` to calc.py, with a test.

## Task 2
Say in notes.txt what there is.
"""
WORK = {
    "calc.py": "def double(x):\n    return 2 * x\n",
    "test_calc.py": "import unittest\n\nfrom calc import double\n\n\nclass Test(unittest.TestCase):\n"
    "    def test_double(self):\n        self.assertEqual(double(3), 6)\n",
}
WORD = f"q{uuid4().hex}"
"""Is in the exam, and nowhere else."""
EXAM = (
    "import unittest\n\nfrom calc import double\n\n\nclass Test(unittest.TestCase):\n"
    f'    def test_other(self):\n        self.assertEqual(double(5), 10, "{WORD}")\n'
)


def calls(name: str, **arguments: object) -> dict[str, Any]:
    return {"times": 1, "tool_calls": [{"name": name, "arguments": arguments}]}


def run_codex(command: str) -> dict[str, Any]:
    return calls("exec_command", cmd=command, yield_time_ms=30000)


@pytest.mark.parametrize("claude", ["claude"])
def test_exam_by_the_other_vendor_is_neither_written_twice_nor_shown(
    claude: str, tmp_path: Path, model: Model
) -> None:
    real = make_real(claude, tmp_path, model)
    place, repo = real.place, real.place.repo
    (repo / "plan.md").write_text(PLAN)
    place.git("commit", "-qam", "Another plan")
    place.env |= environment("codex", model.url, tmp_path) | {"PATH": place.env["PATH"]}
    settings = (tmp_path / "segue.toml").read_text()
    checks = f"checks = {json.dumps([shlex.join(DISCOVER)])}\n"
    options = f'[agents.codex]\npass_env = ["SIM_KEY"]\nconfig = {json.dumps(provider(model.url))}\n'
    place.config(f'{checks}{settings}{options}[proof]\nindependent = true\n[kinds]\n2 = "docs"\n')
    # The word is put together, so that the search itself does not have it. All that the run writes is below
    # this folder; the whole of /tmp, which tests/isolation searches, outlasts a tool call on a busy machine.
    search = f"grep -rlsF --devices=skip $(printf %s {WORD[:3]} {WORD[3:]}) {tmp_path} > found.txt"
    look = f"git cat-file --batch-all-objects --batch | grep -caF $(printf %s {WORD[:3]} {WORD[3:]})"
    claude_says = (
        *(calls("Write", file_path=str(repo / name), content=text) for name, text in WORK.items()),
        {"reply": "Added double.", "times": 1, "hold": True},
        {"times": 1, "tool_calls": [real.shell(f"{search}; {look} > git.txt; echo double > notes.txt")]},
        {"reply": "Said it."},
    )
    codex_says = (
        run_codex(f"printf %s {shlex.quote(EXAM)} > test_other.py"),
        {"reply": "Tested double.", "hold": True},
    )
    model.plays(
        *({"api": "messages", **one} for one in claude_says),
        *({"api": "responses", **one} for one in codex_says),
    )
    process = place.start("run", "plan.md")
    until(lambda: len(asked(model, "input")) == 2, "the writer has written")
    until(lambda: len(asked(model, "messages")) == 3, "the worker has worked")
    process.kill()
    process.wait(DEADLINE)
    model.release()
    place.segue("resume")
    assert len(asked(model, "input")) == 2, "the exam was written once"
    assert len(asked(model, "messages")) == 5
    adopted = [event["facts"]["adopted"] for event in real.events("agent.ended")]
    assert adopted.count(True) == 2, "both agents outlived the run"
    [card, _] = place.json("proof", "last")["tasks"]
    assert (card["level"], card["independent"]["by"]) == ("independent", "codex")
    assert not card["independent"].get("same_vendor")
    assert WORD not in json.dumps(asked(model, "messages")), "the worker was not told"
    assert WORD in json.dumps(asked(model, "input"))
    assert (repo / "found.txt").read_text() == ""
    assert (repo / "git.txt").read_text().strip() == "0"


def asked(model: Model, field: str) -> list[dict[str, Any]]:
    """The requests of one program: `messages` are Claude Code's, `input` Codex's."""
    return [body for body in model.asked() if field in body]
