"""Another scene of the demo: a project built from one prompt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from segue.cli.run import session
from segue.cli.run.demo import repository
from segue.cli.run.demo.repository import DemoRepository
from segue.cli.terminal.output import Printer, program
from segue.runtime.app import App
from segue.runtime.preconditions import NotIsolated, check_isolated
from segue.runtime.task_choice import ALL

_GOAL = "Build a Supabase todo app with auth"


def load_app(place: DemoRepository, agent: str, **settings: Any) -> App:
    """Load the settings of a demo, which keeps its state in its own folder."""
    own = {"state_dir": str(place.state), "database_url": str(place.state / "segue.db")}
    app = App.load(place.repo, command_line={"agent": agent, **own, **settings}, need="nothing")
    try:
        check_isolated(app, app.isolation())
    except NotIsolated as exposed:
        exposed.accept()  # its agents are Segue's own
    return app


async def show_build(folder: Path | None, output: Printer) -> int:
    """Build a project from one prompt."""
    place = await repository.create_empty(folder)
    app = load_app(place, "scripted", agents={"scripted": {"script": str(place.folder / "build.toml")}})
    output.note(f'One prompt, "{_GOAL}", with the simulated agent in every role.\n')
    code = await session.start(app, _GOAL, ALL, output)
    if code == 0:
        output.note(_BUILD + look_again(place))
    return code


def look_again(place: DemoRepository) -> str:
    """Return where a part is stored, and how to look at it."""
    look = f"SEGUE_STATE_DIR={place.state} {program()} serve --open"
    return f"\nStored in {place.folder}\nLook again: {look}\n"


_BUILD = """
The agent planned four steps. The second forgot who may see what: the row level security check (where
Postgres is available) and the judge noticed, a web search found the documentation, and the step passed.
The third step departed from the plan, so the remaining steps were planned again."""
