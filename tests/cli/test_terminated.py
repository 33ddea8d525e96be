"""SIGTERM ends a run whose agent replaced what Segue reads, wherever that is; `segue resume` finishes it."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.cli.place import DEADLINE, Place, until
from tests.cli.test_spec import feature

__all__ = ["feature"]

pytestmark = pytest.mark.skipif(os.name == "nt", reason="pipes and signals are different there")

FEATURE = "specs/001-greeting"
REPLACE = """
target={target}
if [ ! -e {root}/replaced ]; then
    rm -rf "$target"
    {how}
    touch {root}/replaced
    {wait_at_once}
elif [ ! -e {root}/let-through ]; then
    touch {root}/later
    exec sleep 1000
fi
mkdir -p done && echo x > "done/$SEGUE_TASK"
"""
"""The agent: at first it replaces a file, and works on or waits; then it waits, and works from then on."""
HOW = {
    "pipe": 'mkfifo "$target"',
    "link": 'ln -s /dev/zero "$target"',
    "folder": 'mkdir "$target"',
    "endless": 'truncate -s 1T "$target"',
}
PLACES = {
    "plan": ("plan.md", "plan.md"),
    "project settings": ("pyproject.toml", "plan.md"),
    "settings": ("segue.toml", "plan.md"),
    "tracked file": ("code.py", "plan.md"),
    "ignored": (".gitignore", "plan.md"),
    "git configuration": (".git/config", "plan.md"),
    "branch": (".git/refs/heads/main", "plan.md"),
    "all branches": (".git/refs/heads", "plan.md"),
    "git index": (".git/index", "plan.md"),
    "tasks": (f"{FEATURE}/tasks.md", FEATURE),
    "state": (f"{FEATURE}/state.json", FEATURE),
    "criteria": (f"{FEATURE}/spec.md", FEATURE),
}


CASES = [(how, where) for how in HOW for where in PLACES]


def use_agent(place: Place, target: str, how: str, wait_at_once: bool) -> None:
    words = {"target": target, "how": HOW[how], "root": place.root}
    script = place.root / "agent.sh"
    script.write_text(REPLACE.format(**words, wait_at_once="exec sleep 1000" if wait_at_once else ""))
    argv = json.dumps(["sh", str(script)])
    place.config(
        f'agent = "command"\njudged_by = "checks"\nchecks = [["true"]]\n[agents.command]\nargv = {argv}\n'
    )


def remove(path: Path) -> None:
    path.rmdir() if path.is_dir() else path.unlink()


@pytest.mark.thorough
@pytest.mark.quick("while it works-pipe-plan", "afterwards-pipe-state")
@pytest.mark.parametrize(("how", "where"), CASES, ids=map("-".join, CASES))
@pytest.mark.parametrize("moment", ["while it works", "afterwards"])
def test_a_signal_ends_a_run_in_which_files_were_replaced(
    feature: Place, where: str, how: str, moment: str
) -> None:
    place, (target, source) = feature, PLACES[where]
    (place.repo / "code.py").write_text("x = 1\n")
    place.git("add", "--all")
    place.git("commit", "--quiet", "-m", "Code")
    at_once = moment == "while it works"
    use_agent(place, target, how, at_once)
    process = place.start("run", source)
    mark = place.root / ("replaced" if at_once else "later")
    until(lambda: mark.exists() or process.poll() is not None, "the agent has replaced the file")
    process.send_signal(signal.SIGTERM)
    code = process.wait(DEADLINE)
    said = "\n".join(path.read_text() for path in place.root.glob("out-*"))
    assert mark.exists(), said
    assert code == 130, said
    (place.root / "let-through").touch()
    if (where, how) == ("tracked file", "endless"):  # an agent's file, which only a person may give up
        assert "git.add_bytes" in place.segue("resume", code=3).stderr
        return
    if at_once and (where, how) in (("settings", "folder"), ("settings", "endless")):
        # Before settings are read nobody knows where runs are kept: whoever gives the command is told.
        assert f"{target} is" in place.segue("resume", code=2).stderr
        remove(place.repo / target)
    place.segue("resume")
    states = {task["state"] for task in place.json("status", "last")["tasks"]}
    assert states == {"done"}, "nothing of it is left in the way"
    assert not (place.repo / target).is_fifo()
