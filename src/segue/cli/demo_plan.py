"""The first part of the demo: a plan carried through the simulated agent."""

from __future__ import annotations

from pathlib import Path

from segue.app import App
from segue.cli import drive
from segue.cli.options import make_output
from segue.domain.errors import UsageError
from segue.sim import throwaway


async def show(folder: Path | None, as_json: bool, color: str) -> int:
    """Run it, then say where the data lies and what to try next."""
    if folder is not None and folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty.", kept="Nothing was touched.", hint="Name a new folder")
    output = make_output(as_json, color=color)
    place = await throwaway.make(folder.absolute() if folder else None)
    app = App.load(
        place.repo,
        command_line={
            "agent": "scripted",
            "state_dir": str(place.state),
            "database_url": str(place.state / "segue.db"),
            "limits": {"attempts": 2},
            "agents": {"scripted": {"script": str(place.script)}},
        },
    )
    output.note(f"A plan of three tasks, the simulated agent, a throw-away repository: {place.repo}\n")
    code = await drive.start(app, str(place.plan), (), None, output, detach=False, verbose=False)
    output.note(_NEXT.format(repo=place.repo, state=place.state, database=app.database()))
    return code


_NEXT = """\
What happened: task 2 claimed to be done without changing anything and was tried again; task 3 met a
usage limit, waited for it to end and went on. Every step is in the database.

  Repository   {repo}    (git log shows one commit per task)
  Data         {database}

Try next:
  SEGUE_STATE_DIR={state} segue status last        the tasks of this run
  SEGUE_STATE_DIR={state} segue logs               everything that was observed
  segue run your-plan.md --agent scripted --dry-run   every prompt for a plan of yours
  segue doctor                                        what works on this machine"""
