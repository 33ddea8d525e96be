"""From a phase to the agent's process is a short way, and straight down."""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path
from types import CodeType, FrameType

import segue
from segue.api import run
from segue.domain.events import AgentEnded, PromptSent, Recorded
from segue.flow.phases.execute import execute
from segue.system.process.watch import Link
from tests.flow.loop import _make_repository
from tests.templates import copy_template

OURS = str(Path(segue.__file__).parent)
MOST = 6
"""Frames of our own code below the phase, down to the one that has the supervisor start the process."""


class StackAtSpawn:
    """Watches a launch, and notes who called whom when the supervisor is asked to start the agent."""

    def __init__(self) -> None:
        self.codes: list[CodeType] = []

    def __call__(self, recorded: Recorded) -> None:
        """Look at calls only while an agent is launched: that costs much."""
        if isinstance(recorded.event, PromptSent | AgentEnded):
            sys.setprofile(self._see if isinstance(recorded.event, PromptSent) else None)

    def _see(self, frame: FrameType, event: str, _arg: object) -> None:
        is_asked = event == "call" and frame.f_code is Link.ask.__code__
        if is_asked and frame.f_locals["request"]["type"] == "start":
            sys.setprofile(None)
            now: FrameType | None = frame
            while now is not None and now.f_code is not execute.__code__:
                self.codes.append(now.f_code)
                now = now.f_back
            assert now is not None, "it is called from `execute`"


def test_few_frames_are_between_a_phase_and_the_process_of_its_agent(tmp_path: Path) -> None:
    repo, plan, stack = tmp_path / "repo", tmp_path / "plan.md", StackAtSpawn()
    copy_template(_make_repository, repo)
    plan.write_text("## Task 1: Write hello\n\nWrite hello.txt.\n")
    command = {"argv": ["sh", "-c", "cat > hello.txt"]}
    state = tmp_path / "state"
    ended = run(
        plan,
        agent="command",
        repo=repo,
        observers=[stack],
        agents={"command": command},
        isolation="none",
        state_dir=str(state),
    )
    assert ended.error is None, ended.error
    ours = [code for code in stack.codes if code.co_filename.startswith(OURS)]
    names = [f"{Path(code.co_filename).name}:{code.co_name}" for code in reversed(ours)]
    assert 0 < len(names) <= MOST, names
    assert names[0] == "launch.py:launch", names
    files = [file for file, _ in groupby(code.co_filename for code in reversed(ours))]
    assert len(files) == len(set(files)), f"nothing jumps back up: {names}"
