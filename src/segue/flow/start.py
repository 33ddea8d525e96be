"""What is checked before the first launch: which tasks, which agent, which caps, which work tree."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from segue.domain.budget import Budget
from segue.domain.errors import CredentialsError, SegueError, ToolMissing, UsageError, WorkspaceError
from segue.domain.role import Role
from segue.domain.task import Task, TaskList, TaskStatus
from segue.domain.workspace import Snapshot
from segue.flow.context import Cast
from segue.ports import Capabilities, Problem

NO_TASKS = "No pending tasks to process."


def select(listing: TaskList, only: Sequence[str], start: str | None) -> tuple[str, ...]:
    """The keys a run is limited to by `--task` and `--from`; empty means all."""
    for key in [*only, *([start] if start else [])]:
        _known(listing, key)
    if start is None:
        return tuple(only)
    keys = [task.key for task in listing.tasks]
    rest = keys[keys.index(start) :]
    return tuple(key for key in rest if not only or key in only)


def _known(listing: TaskList, key: str) -> None:
    keys = [task.key for task in listing.tasks]
    if key in keys:
        return
    near = get_close_matches(key, keys, n=3, cutoff=0.3) or keys[:3]
    raise UsageError(f"There is no task {key!r} in this source.", hint=f"The nearest are: {', '.join(near)}")


def pending(listing: TaskList, chosen: Sequence[str]) -> list[Task]:
    """The tasks that are still to be done."""
    wanted = set(chosen)
    return [t for t in listing.tasks if t.status is TaskStatus.PENDING and (not wanted or t.key in wanted)]


def raise_problems(problems: Sequence[Problem]) -> None:
    """Refuse to start with a part that cannot work."""
    if not problems:
        return
    kinds: dict[int, type[SegueError]] = {4: CredentialsError, 5: ToolMissing}
    worst = problems[0]
    kind = kinds.get(worst.exit_code, UsageError)
    raise kind("\n".join(problem.message for problem in problems), hint=worst.fix)


def check_cast(cast: Cast, budget: Budget) -> None:
    """Refuse a cast that cannot play together."""
    editing = [player for role in (Role.EXECUTE, Role.ADDRESS, Role.PLAN) for player in cast.get(role, ())]
    if len({player.agent.can.cloud for player in editing}) > 1:
        names = ", ".join(sorted({player.agent.name for player in editing}))
        raise UsageError(
            f"Cloud agents and local ones cannot take turns at the same work: {names}.",
            hint="Name agents of one kind for the roles plan, execute and address",
        )
    for player in cast.get(Role.VERIFY, ()):
        if not player.agent.can.ask_mode:
            raise UsageError(
                f"Agent {player.agent.name} cannot judge: it has no mode in which it only answers.",
                hint='--agent verify=NAME names another one; judged_by = "llm" lets a model judge',
            )
    for player in {player.agent.name: player for players in cast.values() for player in players}.values():
        check_caps(budget, player.agent.can, player.agent.name)


def check_caps(budget: Budget, can: Capabilities, name: str) -> None:
    """A cap that cannot be enforced is a configuration error, not a hope."""
    if budget.tokens is not None and not can.reports_usage:
        raise UsageError(
            f"limits.tokens cannot be enforced: agent {name} does not report tokens.",
            hint="Cap the launches instead: limits.launches",
        )
    if budget.cost_usd is not None and not can.reports_cost:
        raise UsageError(
            f"limits.cost_usd cannot be enforced: agent {name} does not report cost.",
            hint="Cap the launches instead: limits.launches",
        )


def check_clean(now: Snapshot, allow_dirty: bool) -> None:
    """The user's uncommitted work must not be mixed with an agent's."""
    if not now.dirty or allow_dirty:
        return
    names = ", ".join(now.files[:5]) + (" …" if len(now.files) > 5 else "")
    raise WorkspaceError(
        f"The work tree has uncommitted changes: {names}",
        kept="Nothing was touched.",
        hint="Commit or stash them, or start with --allow-dirty",
    )
