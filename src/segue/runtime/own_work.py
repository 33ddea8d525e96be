"""A person's own work, checked as that of a task: without an agent and a run, and nothing is changed."""

from __future__ import annotations

import shlex
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.amounts import format_count, list_some
from segue.domain.errors import CheckUnready, UsageError, WorkspaceError
from segue.domain.proof import CheckResult, CheckState, KnownFailures, Level, Proof
from segue.domain.scenario import Scenario
from segue.domain.task import TaskKind
from segue.flow.context import Checking, Examination
from segue.flow.evidence import checks_verdict, clean_result, refuse_switched_off
from segue.flow.proving import count_mutants, level_of, name_untestable, reaches
from segue.flow.survey import allow_later, is_asked_for
from segue.proof.execute import sweep
from segue.proof.scope import Scope
from segue.proof.setup import clear_kept
from segue.reports.card.build import build_own_card
from segue.reports.card.card import ProofCard
from segue.runtime.app import App, make_own_folder
from segue.runtime.open import allow_programs
from segue.runtime.preconditions import refuse_filters
from segue.runtime.wiring import make_checking, make_examiners
from segue.system import identity
from segue.system.files import private_folder
from segue.system.git.repository import Repository
from segue.system.sweep import delete
from segue.view.task import TaskView

Tell = Callable[[str], None]
_FOLDER, _OWNER, _ENVIRONMENTS = "check-", "owner", "environments"
_KEPT = "Nothing was checked, and nothing was changed."
_TOO_LONG = "Raise check_timeout, or choose a faster command: segue check -- COMMAND"
_LISTED = 5
_SHORT = 10


class OwnWork(Struct, frozen=True):
    """What somebody has changed, and what that is compared with."""

    repo: Repository
    base: str
    """A commit; empty: there is none yet."""
    tree: str
    """The work tree as git would commit it."""
    compared: str
    """The base in words."""
    left_out: tuple[str, ...] = ()
    """What cannot be part of a commit, each with the reason."""


class CheckedWork(Struct, frozen=True):
    """What the checks say about somebody's work."""

    card: ProofCard
    checks: tuple[CheckResult, ...]
    """With their output."""
    examined: dict[str, Examination | None]
    """What examiners of features found out, by name."""
    files: tuple[str, ...]
    proof: Proof | None
    """None: the work is refuted, or there is none."""

    @property
    def passed(self) -> bool:
        """Whether nothing speaks against the work."""
        return self.card.state != "failed"

    def lacks(self, required: Level | None) -> str:
        """Return why the work is not proven well enough; empty: it is, or it is refuted anyway."""
        if required is None or self.proof is None or self.proof.untestable:
            return ""
        if reaches(self.proof, required, TaskKind.BUILD):
            return ""
        why = f": {self.proof.reasons[0]}" if self.proof.reasons else ""
        return f"The work is `{self.proof.level}`, but `{required}` is required{why}."


async def find_work(app: App, since: str | None) -> OwnWork:
    """Return what differs from HEAD, or from where the work parted from another commit."""
    allow_programs(app)
    repo = await Repository.open(app.repo)
    await refuse_filters(repo)
    now = await repo.snapshot()
    if now.unmerged:
        raise WorkspaceError(
            f"A merge is not resolved: {list_some(now.unmerged, _LISTED)}.",
            kept=_KEPT,
            hint="Resolve it and `git add` the files, then check again",
        )
    base = await _find_fork(repo, since, now.head) if since is not None else now.head
    said = f"commit {base[:_SHORT]}" if base else "an empty repository"
    repo.keep_out(repo.root / path for path in now.links)
    left_out = [f"{path} (a repository of its own)" for path in now.links]
    return OwnWork(
        repo,
        base,
        await repo.tree(now),
        f"{since} ({said})" if since is not None else said,
        (*left_out, *now.heavy),
    )


async def _find_fork(repo: Repository, since: str, head: str) -> str:
    """Return the last commit that HEAD and another commit have in common."""
    named = await repo.try_git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{since}^{{commit}}")
    if named.exit_code != 0 or not head:
        raise UsageError(
            f"There is no commit {since!r} here." if head else "There is no commit here yet.",
            kept=_KEPT,
            hint="See `git branch --all`; a branch of the remote must be fetched first: git fetch origin",
        )
    found = await repo.try_git("merge-base", named.out.decode().strip(), head)
    if found.exit_code != 0:
        raise UsageError(
            f"{since} and HEAD have no commit in common here.",
            kept=_KEPT,
            hint="In a shallow clone: git fetch --unshallow   (actions/checkout: fetch-depth: 0)",
        )
    return found.out.decode().split()[0]


async def check_work(app: App, work: OwnWork, about: str, tell: Tell) -> CheckedWork:
    """Run all checks on somebody's work; `about` are their words for it, `tell` hears how far it is."""
    make_own_folder(app.state_dir)
    scratch = private_folder(app.state_dir.absolute() / "scratch")
    _clear_killed(scratch)
    clear_kept(app.state_dir / _ENVIRONMENTS)
    folder = Path(tempfile.mkdtemp(prefix=_FOLDER, dir=scratch))
    try:
        (folder / _OWNER).write_text(identity.me())
        return await _Check(replace(app, made_redactor=app.redactor()), work, about, tell, folder).run()
    finally:
        delete(scratch, folder)


def _clear_killed(scratch: Path) -> None:
    """Delete what checks have left whose process was killed."""
    for folder in scratch.glob(f"{_FOLDER}*"):
        with suppress(OSError, UnicodeDecodeError):
            if identity.is_dead((folder / _OWNER).read_text()):
                sweep(folder)
                delete(scratch, folder)
    for folder in scratch.with_name(_ENVIRONMENTS).glob("*"):
        sweep(folder)


class _Check:
    """One call of `segue check`."""

    def __init__(self, app: App, work: OwnWork, about: str, tell: Tell, folder: Path) -> None:
        self._app, self._work, self._about, self._tell = app, work, about, tell
        self._folder = folder
        kept = app.state_dir.absolute() / _ENVIRONMENTS
        self._checking: Checking = make_checking(app, work.repo, folder, folder / "guard", environments=kept)
        self._redact = app.redactor().text
        self._began = time.time()

    async def run(self) -> CheckedWork:
        """Run the checks, the scenarios and the examiners, and conclude."""
        work, checking = self._work, self._checking
        sealer = checking.sealer()
        scope = await sealer.measure_scope(work.base, work.tree, checking.commands)
        examiners = make_examiners(self._app, self._folder)
        if scope.is_empty:
            return self._conclude((), dict.fromkeys(examiners), scope)
        files = format_count(len(scope.paths), "changed file")
        self._tell(f"Checking {files}, compared with {work.compared}.")
        results = [await self._check(argv) for argv in checking.commands]
        results += [await self._try(one) for one in checking.scenarios if one.task is None]
        examined = {name: await one(work.repo.root) if one else None for name, one in examiners.items()}
        found = [one for one in examined.values() if one is not None]
        if not results and not found:
            raise UsageError(
                "No checks are configured, and no command for the tests was found.",
                kept=_KEPT,
                hint='Name one: segue check -- pytest -q   or write checks = ["pytest -q"] to segue.toml',
            )
        results += [one.check for one in found if one.decides]
        clean = [refuse_switched_off(clean_result(self._redact, one)) for one in results]
        return self._conclude(clean, examined, scope)

    async def _check(self, argv: tuple[str, ...]) -> CheckResult:
        work, command = self._work, self._redact(shlex.join(argv))
        before = KnownFailures()
        if work.base:
            self._tell(f"{command}: what fails already")
            base = await self._checking.sealer().survey(argv, work.base)
            if base.too_long:
                raise CheckUnready(
                    f"The check `{command}` cannot be used: {base.reason}.", kept=_KEPT, hint=_TOO_LONG
                )
            base = allow_later(base, ("*",), ())  # the work may be what lets it start
            if base.words:
                self._tell(self._redact(base.words))
            own = {test for test in base.failing if is_asked_for(test, base.red_files, self._about)}
            before = KnownFailures(base.known - own)
        self._tell(f"{command}: your work")
        return await self._checking.sealer().check(
            argv, work.base, work.tree, before=before, measured=True, words=self._about
        )

    async def _try(self, scenario: Scenario) -> CheckResult:
        """Try a scenario; one that fails without the work too says nothing about it."""
        self._tell(f"scenario {self._redact(scenario.command)}")
        sealer, work = self._checking.sealer(), self._work
        found = await sealer.try_scenario(scenario, work.base, work.tree)
        if not found.ok and work.base and not (await sealer.try_scenario(scenario, None, work.base)).ok:
            return replace(found, state=CheckState.NOTHING, known=(found.command,))
        return found

    def _conclude(
        self, results: Sequence[CheckResult], examined: dict[str, Examination | None], scope: Scope
    ) -> CheckedWork:
        card = TaskView("", f"Your work since {self._work.compared}", state="done")
        card.started, card.work_ms = int(self._began * 1000), int((time.time() - self._began) * 1000)
        if scope.is_empty:
            card.state = "unchanged"
        elif all(one.ok for one in results):
            card.proof = self._prove(results, scope)
        else:
            card.state, card.reason = "failed", checks_verdict(tuple(results)).reason
        checks = tuple(results)
        return CheckedWork(build_own_card(card, checks), checks, examined, scope.paths, card.proof)

    def _prove(self, results: Sequence[CheckResult], scope: Scope) -> Proof:
        level, reasons = level_of(results, inert=bool(scope.untestable), mute=scope.is_comment)
        return Proof(
            level=level,
            reasons=tuple(reasons),
            checks=tuple(replace(one, output="", contested=()) for one in results),
            tree=self._work.tree,
            base=self._work.base,
            mutants=count_mutants(results),
            untestable="" if level.proven else name_untestable(results, scope),
        )
