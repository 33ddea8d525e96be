"""A rehearsal: the same run with simulated agents, in a throw-away clone with a state folder of its own.

A run with the simulated agent would use up a source: `only_writes_notes` says when.
"""

from __future__ import annotations

import glob
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from segue.config.load import LoadedSettings
from segue.config.settings import (
    FinalSettings,
    FlowSettings,
    LogSettings,
    ProofSettings,
    ReviewSettings,
    RoleSettings,
    Settings,
)
from segue.domain.errors import UsageError
from segue.domain.job import Role
from segue.domain.kinds import with_kinds
from segue.domain.task import Task, TaskKind
from segue.domain.workspace import Snapshot
from segue.plugins import OBSERVERS
from segue.ports import Source
from segue.runtime import registry
from segue.runtime.app import App
from segue.runtime.first_run import needs_agent
from segue.runtime.past import foresee
from segue.runtime.plan import RunPlan, draft_run, is_by_checks, kind_rules
from segue.runtime.preconditions import SETTINGS
from segue.runtime.task_choice import ALL, TaskChoice
from segue.runtime.wiring import make_run_notifier
from segue.system import identity
from segue.system.git.repository import FALLBACK_IDENTITY, Repository, look
from segue.system.git.scratch import UNSIGNED, clone_at, init_repository, is_new_place
from segue.system.process.folder import end_orphans
from segue.system.programs import record_nothing
from segue.system.reading import work_tree
from segue.system.sweep import delete

SIMULATED = "scripted"
"""The agent that plays all roles."""
_FOLDER = "segue-rehearsal-"
_OWNER = "owner"
_KEPT = "Nothing was started."


class Rehearsal(Struct, frozen=True):
    """A run as it is rehearsed, and what the real one would be."""

    app: App
    """The settings of the rehearsal."""
    named: str
    """Its source, in the clone."""
    chosen: TaskChoice
    """The tasks it is limited to."""
    real: RunPlan
    """What the real run would do; its agent is the simulated one where nobody has chosen another."""
    uncommitted: tuple[str, ...] = ()
    """Files that a real run would want committed."""

    @property
    def left_out(self) -> list[str]:
        """What a real run does and the rehearsal does not, in a few words each."""
        settings, source = self.real.app.loaded.settings, self.real.source
        reviewer = settings.review.reviewer or "stet, if it is ready"
        found = {
            f"review ({reviewer})": self.real.flow.has("review") and reviewer != "none",
            "independent tests": self.real.flow.has("independent"),
            f"the judge {self.real.judge}": _simulated_judge(self.real) not in (None, self.real.judge),
            f'delivery = "{settings.delivery}"': settings.delivery is not None,
            "gates": bool(settings.gates),
            "open checklists, about which it asks": bool(source.open_checklists),
            "[final] commands": bool(settings.final.review or settings.final.audit),
            "notifications": make_run_notifier(self.real.app, None, lambda _said: None) is not None,
        }
        return [words for words, is_left_out in found.items() if is_left_out]


@asynccontextmanager
async def rehearse(app: App, named: str | None, chosen: TaskChoice = ALL) -> AsyncIterator[Rehearsal | None]:
    """Prepare a rehearsal, and remove everything of it at the end; None when there is nothing to do.

    Raises what would keep the real run from starting, except for agents that are missing.
    """
    real = replace(app, loaded=_with(app, agent=SIMULATED)) if needs_agent(app) else app
    is_new = app.plans_tasks(named) and is_new_place(app.repo)
    root = Path(os.path.realpath(app.repo if is_new else work_tree(app.repo)))
    _refuse_services(app.find_kind(named))
    source = app.source(named, root)
    home, now = (None, None) if is_new else await look(app.repo)
    plan = draft_run(real, source, chosen, foresee(app, source))
    if plan.is_planned and not plan.pending:
        yield None
        return
    await clear_rehearsals()
    record_nothing()
    folder = Path(tempfile.mkdtemp(prefix=_FOLDER))
    try:
        (folder / _OWNER).write_text(identity.me())
        clone = folder / "state" / "worktrees" / (root.name or "repository")
        repo = await _clone(home, now, clone)
        place = _bring(source, root, clone, folder)
        await _commit(repo)
        own = _rehearsing(real, plan, folder / "state", clone)
        if source.outline is not None and plan.is_planned:
            outline = own.source(place, clone, source.kind).outline
            assert outline is not None
            outline.revise(plan.listing.tasks, "")
        keys = tuple(task.key for task in plan.pending) if plan.is_planned else ()
        yield Rehearsal(own, place, TaskChoice(keys), plan, _list_uncommitted(plan, root, now))
    finally:
        await remove_rehearsal(folder)


async def clear_rehearsals() -> None:
    """Remove what is left of rehearsals that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*"):
        with suppress(OSError, UnicodeDecodeError):
            if not folder.is_symlink() and identity.is_dead((folder / _OWNER).read_text()):
                await remove_rehearsal(folder)


async def remove_rehearsal(folder: Path) -> None:
    """End what still runs of a rehearsal, and remove its folder."""
    for run in (folder / "state" / "runs").glob("*/jobs"):
        await end_orphans(run.parent)
    delete(folder.parent, folder)


def _refuse_services(kind: str) -> None:
    if not registry.says("sources", kind, "in_files"):
        raise UsageError(
            f"Tasks of the source {kind} cannot be rehearsed: it is asked for them, and told what is done.",
            kept=_KEPT,
            hint="Print its prompts instead: segue run SOURCE --dry-run   or rehearse a plan, a Spec Kit "
            "feature, a table or a sentence",
        )


async def _clone(home: Repository | None, now: Snapshot | None, folder: Path) -> Repository:
    """Clone the repository with its work tree as it is; without one, begin a new one."""
    if home is None or now is None or not now.head:
        folder.mkdir(parents=True, mode=0o700)
        branch = (f"--initial-branch={now.branch}",) if now and now.branch else ()
        repo = await init_repository(folder, *branch)
        if home is None:
            await repo.git(*UNSIGNED, *FALLBACK_IDENTITY, "commit", "--quiet", "--allow-empty", "-m", "Start")
    else:
        repo = await clone_at(home, folder, head=now.head, branch=now.branch, tree="")
    if home is not None and now is not None:
        for name in now.files:  # first, or a link would lead a copy astray
            _remove(folder / name)
        for name in now.files:
            _copy(home.root / name, folder / name, folder)
    return repo


def _bring(source: Source, root: Path, clone: Path, folder: Path) -> str:
    """Copy the source as it is, even if git ignores it or it is elsewhere; return what names it there."""
    place = Path(source.address)
    if source.outline is not None or not place.is_absolute():
        return source.address
    inside = place.is_relative_to(root)
    target = clone / place.relative_to(root) if inside else folder / "outside" / place.name
    if place.is_dir():
        shutil.copytree(place, target, symlinks=True, dirs_exist_ok=True)
    else:
        _copy(place, target, folder)
    for own in source.own_files:  # what Segue has recorded, beside the tasks themselves
        if own not in source.contract_files and own.is_relative_to(place):
            (target / own.relative_to(place)).unlink(missing_ok=True)
    return str(target)


async def _commit(repo: Repository) -> None:
    """Commit what is not committed: lanes see commits only."""
    await repo.git("add", "--all")
    if await repo.git("status", "--porcelain"):
        identity = await repo.identity_options()
        await repo.git(*UNSIGNED, *identity, "commit", "--quiet", "-m", "What is not committed yet")


def _list_uncommitted(plan: RunPlan, root: Path, now: Snapshot | None) -> tuple[str, ...]:
    """Return the files because of which a real run would not start."""
    settings, source = plan.app.loaded.settings, plan.source
    if now is None or settings.allow_dirty or settings.worktree or settings.delivery:
        return ()
    own = {*source.own_files, *source.kept_out, root / SETTINGS}
    return tuple(name for name in now.files if root / name not in own)


def _copy(source: Path, target: Path, inside: Path) -> None:
    if not (source.is_symlink() or source.is_file()):
        return  # removed, or a repository within this one
    target.parent.mkdir(parents=True, exist_ok=True)
    if Path(os.path.realpath(target.parent)).is_relative_to(os.path.realpath(inside)):
        _remove(target)
        shutil.copy2(source, target, follow_symlinks=False)


def _remove(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()


def _rehearsing(app: App, plan: RunPlan, state: Path, clone: Path) -> App:
    """Return the settings of the rehearsal: what would reach beyond the clone is switched off.

    The simulated agent writes notes, so its tasks are asked for no more than documentation is.
    """
    settings = app.loaded.settings
    phases = tuple(phase.name for phase in plan.flow.phases if phase.role is not Role.TEST)
    loaded = _with(
        app,
        **dict.fromkeys(("model", "repo", "source", "base", "delivery", "require"), None),
        **dict.fromkeys(("database_url", "max_consecutive_task_failures"), None),
        **dict.fromkeys(("lane_setup", "lane_link", "gates"), ()),
        **dict.fromkeys(("allow_dirty", "allow_no_change", "ignore_checklists"), True),
        plan_changed="keep",
        agent=SIMULATED,
        roles=RoleSettings(),
        escalate=False,
        escalate_to={},
        flow="rehearsal",
        flows={**settings.flows, "rehearsal": FlowSettings(phases=phases)},
        judged_by=_simulated_judge(plan),
        kinds=_simulated_kinds(app, plan),
        limits=replace(settings.limits, resolutions=0),
        on_failure="continue",
        worktree=False,
        isolation="none",
        state_dir=state,
        final=FinalSettings(),
        log=LogSettings(),
        proof=ProofSettings(),
        review=ReviewSettings(reviewer="none"),
        **_without_services(settings),
    )
    return replace(
        app,
        loaded=replace(loaded, origins={}, overrides={}),
        repo=clone,
        stands_for=app.repo,
        made_redactor=app.redactor(),
    )


def _without_services(settings: Settings) -> dict[str, Any]:
    """Return the tables that notify people or ask services, as if nobody had set them."""
    names = (*OBSERVERS, "search")
    return {name: type(getattr(settings, name))() for name in names if hasattr(settings, name)}


def _with(app: App, **changes: Any) -> LoadedSettings:
    return replace(app.loaded, settings=replace(app.loaded.settings, **changes))


def _simulated_judge(plan: RunPlan) -> str | None:
    """Return who judges in a rehearsal: the checks as they are, the simulated agent for everybody else."""
    return plan.judge if plan.judge is None or is_by_checks(plan.judge) else "agent"


def _simulated_kinds(app: App, plan: RunPlan) -> dict[str, str]:
    def kind(task: Task) -> TaskKind:
        return TaskKind.HUMAN if task.kind is TaskKind.HUMAN else TaskKind.DOCS

    if not plan.is_planned:
        return {"*": TaskKind.DOCS}
    tasks = with_kinds(plan.listing, kind_rules(app)).tasks
    return {glob.escape(task.key): kind(task) for task in tasks}


WHY = (
    "The scripted agent is simulated: it writes a note for each task, its commits are not real work, and the "
    "tasks are marked done."
)


def only_writes_notes(app: App) -> bool:
    """Return whether the simulated agent plays a role, and nobody has said how.

    Who has given it a script wants what the script says, and so does an experiment.
    """
    settings, roles = app.loaded.settings, app.loaded.settings.roles
    named = [settings.agent, *(getattr(roles, name) for name in roles.__struct_fields__)]
    chains = (name.split(",") for name in named if name)
    used = any(choice.split(":")[0].strip() == SIMULATED for chain in chains for choice in chain)
    return used and not settings.agents.get(SIMULATED, {}).get("script") and not os.environ.get("SEGUE_TRIAL")


def refuse_simulated(app: App, yes: bool, hint: str) -> None:
    """Refuse the simulated agent for a real source where nobody can be asked; `hint` says how to say yes."""
    if not yes and only_writes_notes(app):
        raise UsageError(WHY, kept="Nothing was started.", hint=hint)
