"""What a person must decide before the first task, and proofs that are asked for but cannot be reached."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from segue.config.settings import Settings
from segue.domain.errors import UsageError, WorkspaceError
from segue.domain.options import OptionError
from segue.domain.proof import Level
from segue.domain.run import RunState
from segue.domain.scenario import Scenario, scenarios_in
from segue.domain.task import TaskList
from segue.domain.workspace import Snapshot
from segue.flow.phase import Flow
from segue.ports import Source
from segue.system.files import private_folder
from segue.system.git.outside import name_refused
from segue.system.git.repository import Repository
from segue.system.isolation.isolate import Isolation, Means

if TYPE_CHECKING:
    from segue.runtime.app import App

INTRODUCE = 'git config --global user.name "Your Name" && git config --global user.email you@example.com'
SETTINGS = "segue.toml"
_KEPT = "Nothing was started."
_ACCEPTED = "no-sandbox-accepted"


class Undecided(UsageError):
    """Something that a person may wave through; `answer` are the settings that say so."""

    def __init__(self, message: str, hint: str, question: str, answer: Mapping[str, object]) -> None:
        super().__init__(message, kept=_KEPT, hint=hint)
        self.question, self.answer = question, answer

    def accept(self) -> None:
        """Remember what outlasts the run; most answers are settings of this one."""


class NotIsolated(Undecided):
    """Nothing on this machine can isolate agents, and nobody has said yet that they may work without it."""

    def __init__(self, isolation: Isolation, state_dir: Path) -> None:
        chosen = isolation.chosen
        hints = (
            chosen.fix,
            'Start anyway: --yes (remembered), or isolation = "none" in your settings (SEGUE_ISOLATION=none)',
        )
        super().__init__(
            f"{isolation.sentence} They can read, change and delete everything that you can.",
            "   ".join(filter(None, hints)),
            "Let agents work without a sandbox on this machine (asked once)?",
            {},
        )
        self._note = state_dir / _ACCEPTED

    def accept(self) -> None:
        """Ask no more on this machine."""
        private_folder(self._note.parent)
        self._note.touch()


def check_isolated(app: App, isolation: Isolation) -> None:
    """Raise NotIsolated where agents would have no sandbox, unless the user has said that they need none."""
    if asks_for_sandbox(app, isolation):
        raise NotIsolated(isolation, app.state_dir)


def asks_for_sandbox(app: App, isolation: Isolation) -> bool:
    """Return whether the next run has to ask if agents may work without a sandbox."""
    is_open = app.loaded.settings.isolation == "auto" and isolation.chosen.means is Means.NONE
    return is_open and not (app.state_dir / _ACCEPTED).exists()


def check_preconditions(settings: Settings, source: Source) -> None:
    """Raise Undecided for what a person must decide first."""
    if source.open_checklists and not settings.ignore_checklists:
        raise Undecided(
            f"Some checklists have unchecked items: {'; '.join(source.open_checklists)}.",
            "Check them, or start anyway with --ignore-checklists",
            "Start anyway?",
            {"ignore_checklists": True},
        )


def refuse_dirty(app: App, source: Source, root: Path, now: Snapshot) -> None:
    """Refuse uncommitted work where a new run would refuse it."""
    settings = app.loaded.settings
    if settings.allow_dirty or settings.worktree or settings.delivery or source.outline is not None:
        return
    with app.store(read_only=True) as store:
        last = next(iter(store.runs(source_key=source.key, limit=1)), None)
    if last is not None and last.state is not RunState.DONE:
        return  # it continues with what it has changed
    own = [*source.own_files, *source.kept_out, root.resolve() / SETTINGS]
    if any(root.resolve() / name not in own for name in now.files):
        check_clean(now)


async def refuse_filters(repo: Repository) -> None:
    """Refuse files that need a filter which git does not start: they would be committed as they are."""
    if said := await name_refused(repo.place):
        raise WorkspaceError(
            " ".join(said),
            kept=_KEPT,
            hint="Allow it in trusted settings, then give the command again",
        )


async def introduce(error: WorkspaceError, repo: Repository) -> WorkspaceError:
    """Return the refusal of uncommitted work; who cannot commit, because git knows nobody, is told how."""
    if not await repo.author():
        error.hint = f"Say who you are: {INTRODUCE}   {error.hint}"
    return error


def check_clean(now: Snapshot) -> None:
    """Refuse to mix the user's uncommitted work with an agent's."""
    if not now.dirty:
        return
    names = ", ".join(now.files[:5]) + (" …" if len(now.files) > 5 else "")
    hint = "Commit or stash them, or start with --allow-dirty"
    if not now.head:  # git stash needs a commit
        hint = 'Make the first commit: git add --all && git commit -m "Begin", or start with --allow-dirty'
    raise WorkspaceError(
        f"The work tree has uncommitted changes: {names}", kept="Nothing was touched.", hint=hint
    )


def check_proof(settings: Settings, flow: Flow, listing: TaskList) -> None:
    """Refuse settings about proofs that cannot work, scenarios with mistakes, and levels out of reach."""
    scenarios = (*settings.proof.scenarios, *_read_scenarios(listing))
    checks = bool(settings.checks or settings.smoke)
    if flow.has("independent") and not checks:
        raise UsageError(
            "[proof] independent has no effect: there are no checks to run the tests.",
            hint='Set checks = ["pytest -q"]',
        )
    if settings.require is not None and settings.require is not Level.CHANGED:
        _check_level(settings.require, flow, checks, bool(scenarios), bool(settings.proof.mutants))


def _read_scenarios(listing: TaskList) -> list[Scenario]:
    found: list[Scenario] = []
    for task in listing.tasks:
        try:
            found += scenarios_in(task.text)
        except OptionError as error:
            raise UsageError(
                f"A scenario of task {task.key} cannot be used: {error}", hint="See docs/explanation/proof.md"
            ) from None
    return found


def _check_level(level: Level, flow: Flow, checks: bool, scenarios: bool, mutants: bool) -> None:
    refused = f'require = "{level}" cannot be reached'
    if not (checks or scenarios):
        raise UsageError(
            f"{refused}: there are no checks.", hint='Set checks = ["pytest -q"], or require less'
        )
    if level.rank >= Level.TESTED.rank and not mutants:
        raise UsageError(
            f"{refused}: mutants are switched off.", hint="Remove mutants = 0 from [proof], or require less"
        )
    if level is Level.INDEPENDENT and not flow.has("independent"):
        raise UsageError(
            f"{refused}: nobody writes tests that the agent does not see.",
            hint='Set independent = true in [proof], or require = "tested"',
        )
