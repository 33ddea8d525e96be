"""Tools that change something: start and stop runs, decide about tasks. Agents of a run are refused."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from segue.domain.errors import UsageError
from segue.domain.events import PLAN_GATE
from segue.domain.run import Run
from segue.features.mcp.look import Data, RunName, plain, read_status
from segue.features.mcp.project import ServedProject
from segue.runtime.app import App
from segue.runtime.background import detach, start_resume, stop_run
from segue.runtime.comments import comment as store_comment
from segue.runtime.open import open_run
from segue.runtime.overrides import decide as decide_task
from segue.runtime.overrides import try_again
from segue.runtime.plan import NO_TASKS
from segue.runtime.rehearsal import refuse_simulated
from segue.runtime.task_choice import TaskChoice
from segue.view.load import ACTIVE, state_of

_VIA = "through MCP"


class ChangeTools:
    """What a caller may do, as far as the settings of the project allow it."""

    def __init__(self, project: ServedProject) -> None:
        self._project = project

    async def start_run(
        self,
        source: Annotated[
            str,
            Field(
                description="A plan file, a feature folder, or a sentence that says what to build; "
                "empty: the configured source. See list_sources."
            ),
        ] = "",
        tasks: Annotated[list[str] | None, Field(description="Only these tasks, by key.")] = None,
        agent: Annotated[str, Field(description="NAME or NAME:MODEL; empty: the configured one.")] = "",
        jobs: Annotated[int | None, Field(ge=1, le=16, description="How many tasks at once.")] = None,
        worktree: Annotated[
            bool | None, Field(description="Work in a separate git worktree, on a new branch.")
        ] = None,
        approve: Annotated[
            bool,
            Field(description="For a sentence: stop when the plan is made, so that the user can look at it."),
        ] = False,
        simulated: Annotated[
            bool,
            Field(description="Let the simulated agent `scripted` mark the tasks of the source as done."),
        ] = False,
    ) -> Data:
        """Start a run in the background and return its id at once; the run outlives this server.

        Coding agents then work on the tasks, one by one, and each task is checked and proven. The same source
        continues its unfinished run. Follow it with wait_for_run.
        """
        self._project.refuse_agents()
        self._project.check_source(source)
        name, _, model = agent.partition(":")
        chosen: dict[str, Any] = {"jobs": jobs, "worktree": worktree}
        app = self._project.load(agent=name or None, model=model or None, **chosen)
        if approve:
            gates = sorted({*app.loaded.settings.gates, PLAN_GATE})
            app = self._project.load(agent=name or None, model=model or None, gates=gates, **chosen)
        # A caller that loses patience must not leave a run behind that nobody works on.
        return await asyncio.shield(_start(app, source, tasks or (), simulated))

    async def stop_run(self, run: RunName) -> Data:
        """Stop a run and its agents. Nothing is lost: `decide` with `resume` continues it."""
        app, found = self._project.find_own(run)
        if state_of(found) not in ACTIVE:
            raise UsageError(
                f"Run {found.id} is not running: it is {state_of(found)}.", kept="Nothing was changed."
            )
        stopped = await stop_run(app, found)
        return plain({"run": stopped.id, "state": state_of(stopped)})

    async def decide(
        self,
        run: RunName,
        decision: Annotated[
            Literal["resume", "retry", "accept", "skip"],
            Field(
                description="resume: continue a run that stopped or waits at a gate; retry: try a task "
                "again that failed; accept: the task counts as done, unproven; skip: continue without it."
            ),
        ],
        task: Annotated[str, Field(description="The task's key, for all but resume.")] = "",
        reason: Annotated[str, Field(description="Why, for accept and skip.", max_length=500)] = "",
    ) -> Data:
        """Decide for the user about a run that waits for a person. Ask the user before you accept or skip.

        While the run works, it does so itself; else call it again with `resume` after accept and skip.
        """
        app, found = self._project.find_own(run)
        if decision == "retry" and task:
            await try_again(self._project.load_for(found), found, task, _VIA)
        elif decision in ("resume", "retry"):
            self._project.load_for(found, resume=True)
            await start_resume(app, found)
        else:
            await self._override(found, task, reason, skip=decision == "skip")
        return await asyncio.to_thread(read_status, self._project, found.id)

    async def comment(
        self,
        run: RunName,
        task: Annotated[
            str, Field(description="The task's key, or `plan` for a plan that waits for approval.")
        ],
        text: Annotated[str, Field(description="What should be different; the agent gets these words.")],
    ) -> Data:
        """Answer what the agent of a task asked, or send a task back to it or a plan to its planner.

        They get the user's words; a task that is done is open again. Call `decide` with `resume` afterwards.
        """
        _, found = self._project.find_own(run)
        await store_comment(self._project.load_for(found), found, task, text, via=_VIA)
        return await asyncio.to_thread(read_status, self._project, found.id)

    async def _override(self, run: Run, task: str, reason: str, *, skip: bool) -> None:
        if not task or not reason.strip():
            raise UsageError("A task and a reason are needed to accept or skip.", kept="Nothing was changed.")
        app: App = self._project.load_for(run)
        words = f"skipped: {reason.strip()}" if skip else reason.strip()
        await decide_task(app, run, task, words, skip=skip, via=_VIA)


async def _start(app: App, source: str, tasks: Sequence[str], simulated: bool) -> Data:
    def confirm() -> None:
        refuse_simulated(app, simulated, "Name another agent, or say that you want this: simulated = true")

    async with open_run(app, source or None, TaskChoice(tuple(tasks)), confirm=confirm) as opened:
        if opened is None:
            return {"run": None, "state": "done", "note": NO_TASKS}
        await detach(opened)
        return {
            "run": opened.run.id,
            "state": "running",
            "resumed": not opened.fresh,
            "agent": opened.spec.agent,
            "tasks": len(opened.spec.tasks) or len(opened.plan.listing.tasks),
            "note": opened.warning,
            "next": "Call wait_for_run.",
        }
