"""An agent replaces the plan by something else: nothing outside is touched, nobody waits for ever."""

from __future__ import annotations

import json
import os

import pytest

from tests.cli.place import PLAN, Place

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links and pipes are different there")


def _replaces(*commands: list[str]) -> str:
    return f'[[on]]\ntask = "1"\nrun = {json.dumps(commands)}\nwrite = {{ "a.txt" = "x" }}\n'


def test_a_plan_that_was_replaced_is_put_back_and_named(place: Place) -> None:
    bashrc = place.root / "home" / ".bashrc"
    bashrc.write_text("mine\n")
    place.script(_replaces(["rm", "plan.md"], ["ln", "-s", str(bashrc), "plan.md"]))
    done = place.segue("run", "plan.md", "--task", "1")
    assert "tampering: The agent put a link" in done.stderr
    assert "in place of plan.md" in done.stderr
    assert bashrc.read_text() == "mine\n"
    assert not (place.repo / "plan.md").is_symlink()
    assert (place.repo / "plan.md").read_text() == PLAN
    assert place.json("status", "last")["tasks"][0]["tampering"] == 1
    assert "plan.md" not in place.git("show", "--name-only", "HEAD")
