"""`segue replay --agent`: repeat recorded launches, and show the first difference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from segue.cli.terminal.output import Printer

if TYPE_CHECKING:
    from segue.parts.lab.replay.launches import ReplayedLaunch
    from segue.runtime.app import App


def replay_agents(app: App, names: Sequence[str], output: Printer) -> int:
    """Replay the launches of runs and print what came of it; return the exit code."""
    import asyncio

    from segue.cli.runs import find_run
    from segue.domain.errors import NeedsHuman
    from segue.parts.lab.replay.launches import replay_launches

    with app.store(read_only=True) as store:
        runs = {run.id: run for run in (find_run(store, app, name) for name in names)}
        replayed = asyncio.run(replay_launches(store, app, list(runs.values()), output.note))
    lines = [line for one in replayed for line in _describe(one)]
    output.result({"launches": [one.to_json() for one in replayed]}, "\n".join(lines))
    return 0 if replayed[-1].same else NeedsHuman.exit_code


def _describe(one: ReplayedLaunch) -> Iterator[str]:
    head = f"{one.run}  {one.step}  {one.agent} {one.version}"
    other = one.other
    if other is None and not one.patch:
        yield f"{head}: all {one.requests} requests and the work are as recorded."
    elif other is None:
        yield f"{head}: all {one.requests} requests are as recorded, but the work differs."
        yield from one.patch
    elif other.found is None:
        yield f"{head}: request {other.number} of {other.of} was recorded, but the agent ended without it."
        if one.failure:
            yield f"The agent: {one.failure}"
    else:
        what = f"request {other.number} of {other.of} differs"
        if other.extra:
            what = f"the agent asks more than the {other.of} recorded requests"
        yield f"{head}: {what}, first in {other.found.place}."
        yield from other.found.diff
