"""The first part of the demo: a plan carried through the simulated agent."""

from __future__ import annotations

from pathlib import Path

from segue.cli import drive
from segue.cli.output import Output, program
from segue.runtime.wiring import App
from segue.sim import throwaway


async def show(folder: Path | None, output: Output) -> int:
    """Run it, then say what happened and where the data lies."""
    place = await throwaway.with_plan(folder)
    app = App.load(
        place.repo,
        command_line={
            "agent": "scripted",
            "state_dir": str(place.state),
            "database_url": str(place.state / "segue.db"),
            "limits": {"attempts": 2},
            "agents": {"scripted": {"script": str(place.folder / "script.toml")}},
        },
    )
    output.note(f"1. A plan of three tasks, the simulated agent, a throw-away repository: {place.repo}\n")
    code = await drive.start(app, str(place.plan), (), None, output, detach=False, verbose=False)
    if code == 0:
        output.note(
            _SAID.format(segue=program(), repo=place.repo, state=place.state, database=app.database())
        )
    return code


_SAID = """
What happened: task 2 claimed to be done without changing anything and was tried again; task 3 met a
usage limit, waited for it to end and went on. Every step is in the database.

  Repository   {repo}    (git log shows one commit per task)
  Data         {database}
  Look again   SEGUE_STATE_DIR={state} {segue} status last
               SEGUE_STATE_DIR={state} {segue} logs
"""
