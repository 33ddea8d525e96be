"""Ask the checks before the first launch: what is red already is not the agent's fault.

They run on what the first task of a session begins with, where its own check needs the result anyway. A
check that cannot start is refused before anybody is paid.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import shlex
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from segue.domain.amounts import list_some
from segue.domain.errors import CheckUnready
from segue.domain.events import BaseChecked, NoticeGiven
from segue.domain.kinds import with_kind
from segue.domain.proof import BaseCheck, BaseState, KnownFailures, Level
from segue.domain.results import BaseOutput, StepFacts, StepResult
from segue.domain.task import Task, TaskKind, TaskStatus
from segue.flow.context import RunContext
from segue.proof.paths import matches_any

if TYPE_CHECKING:
    from segue.store.store import Store


_LAST_RUNS = 20
_UNTIMED = (
    "The checks take long on what the run begins with. The first launch waits until it is known that they "
    "end within check_timeout; later runs need not wait."
)
_LISTED = 3
_COMMON = frozenset(("all", "build", "check", "ci", "lint", "run", "start", "test", "tests"))
"""Words that plans are full of: they name a target only beside a word for one."""
_PATH = re.compile(r"[\w/-][\w./-]*\.\w+")
_LITTLE = "and are does for from has its not say should test tests that the this when with works"
_PLAIN = frozenset(_LITTLE.split(" "))
_ALL_PASS = re.compile(
    r"\b(?:tests?|suites?|specs?|checks)\b[^.;\n]{0,30}\b(?:pass(?:es)?|green|succeeds?)\b"
    r"|\bno (?:\w+ ){0,2}(?:tests?|suites?|specs?|checks) fails?\b",
    re.I,
)
_DEFINES = re.compile(r"\b(?:target|recipe|script|makefile|justfile|package\.json)\b", re.I)


async def survey(context: RunContext, base: str, *, begun: bool = False) -> None:
    """Run the checks on the base once in a session; raises CheckUnready when one cannot start.

    What takes long continues beside the first launch, and `settle` waits for it; but not before it is known
    that it ends at all, or agents would be paid for work that nothing can check. Work that has `begun` is
    not refused any more: its base cannot be repaired.
    """
    if not base or not context.checking.commands:
        return
    if context.survey.work is None:
        context.survey.work = asyncio.create_task(_survey(context, base, begun))
    await asyncio.wait({context.survey.work}, timeout=context.survey.patience)
    if not (context.survey.work.done() or context.survey.is_timed or begun):
        await context.emit(NoticeGiven(_UNTIMED))
        await asyncio.wait({context.survey.work})
    if context.survey.work.done():
        context.survey.work.result()


async def settle(context: RunContext) -> None:
    """Wait until it is known what was red before."""
    if context.survey.work is not None:
        await asyncio.wait({context.survey.work})
        context.survey.work.result()


async def end_survey(context: RunContext) -> None:
    """Leave nothing running at the end of a session."""
    work = context.survey.work
    if work is not None:
        work.cancel()
        await asyncio.wait({work})


def known_before(context: RunContext, task: Task, command: str) -> KnownFailures:
    """Return what was red before the run and is no task of this task.

    A test that the task is about must pass; where it only asks whether all do, that is each of them.
    """
    if task.kind is TaskKind.VERIFY_ONLY and asks_for_all(task.text):
        return KnownFailures()
    known, check = context.view.before.of(command), context.view.before.checks.get(command)
    red_files = check.red_files if check is not None else ()
    own = {test for test in known.tests if is_asked_for(test, red_files, task.text)}
    return replace(known, tests=known.tests - own)


def written_first(context: RunContext) -> set[str]:
    """Return the tests that test-first tasks of this run have written."""
    return {
        test
        for one in context.view.tasks.values()
        if one.kind == TaskKind.TEST_FIRST and one.proof is not None
        for check in one.proof.checks
        for test in check.proved
    }


def read_known(store: Store, source_key: str, head: str) -> dict[str, BaseCheck]:
    """Return what checks said about a commit in the last runs of a source, by command."""
    return {check.command: check for base, check in _read_past(store, source_key) if base == head}


def ends_in_time(store: Store, source_key: str, commands: Iterable[str], limit: float) -> bool:
    """Return whether checks ended within half of the time they may take, in the last runs of a source."""
    slowest: dict[str, float] = {}
    for _, check in _read_past(store, source_key):
        if check.state is not BaseState.UNREADY and not check.too_long:
            slowest[check.command] = max(slowest.get(check.command, 0.0), check.seconds)
    return all(slowest.get(command, limit) <= limit / 2 for command in commands)


def _read_past(store: Store, source_key: str) -> Iterator[tuple[str, BaseCheck]]:
    """Yield what checks said about commits in the last runs of a source, the latest last."""
    for run in reversed(list(store.runs(source_key, limit=_LAST_RUNS))):
        for recorded in store.events(run.id, kinds=(BaseChecked,)):
            if isinstance(recorded.event, BaseChecked):
                yield from ((recorded.event.base, check) for check in recorded.event.checks)


async def _survey(context: RunContext, base: str, begun: bool) -> None:
    """Run all checks on the base, as one step of the journal."""
    commands = context.checking.commands
    facts = msgspec.json.encode((base, commands, context.checking.known_failures))
    key = f"before/{hashlib.sha256(facts).hexdigest()[:12]}"

    async def work(_token: str) -> StepResult[BaseOutput]:
        written = written_first(context)
        checks: list[BaseCheck] = []
        for argv in commands:
            found = await context.checking.sealer().survey(argv, base)
            command = context.redact(shlex.join(argv))
            mine = tuple(test for test in found.failing if test not in written)
            reason = context.redact(found.reason)
            told = replace(found, command=command, failing=mine, reason=reason)
            known = ("*",) if begun else context.checking.known_failures
            checks.append(allow_later(told, known, _pending(context)))
        await context.emit(BaseChecked(base, tuple(checks)), key)
        for check in checks:
            if check.state is BaseState.UNREADY:
                raise _refuse(context, check)
        if not begun and (unreachable := _name_unreachable(context, checks)):
            raise unreachable
        return StepResult(True, BaseOutput(tuple(checks)))

    await context.journal.step(key, BaseOutput, work, facts=StepFacts(phase="before", proves=True))


def allow_later(check: BaseCheck, known: Collection[str], pending: Iterable[Task]) -> BaseCheck:
    """Let a check through that cannot start where the user says so, or where a task may see to it."""
    if check.state is not BaseState.UNREADY:
        return check
    if matches_any(check.command, known) or any(_may_add(task, check) for task in pending):
        return replace(check, state=BaseState.RED, by_code=True)
    return check


def _pending(context: RunContext) -> list[Task]:
    tasks = [task for task in context.source.tasks().tasks if task.status is TaskStatus.PENDING]
    return [task for task in tasks if with_kind(task, context.policy.kinds).kind is not TaskKind.HUMAN]


def _may_add(task: Task, check: BaseCheck) -> bool:
    """Return whether the words of a task name what a check lacks."""
    if check.command in task.text:
        return True
    for name in check.missing:
        if _names(task.text, name) and (name.lower() not in _COMMON or _DEFINES.search(task.text)):
            return True
    return False


def _names(text: str, name: str) -> bool:
    return re.search(rf"(?<![\w./-]){re.escape(name)}(?![\w-])", text) is not None


def is_asked_for(test: str, red_files: Collection[str], text: str) -> bool:
    """Return whether a task is about a test that was red.

    It names the test; or its file, and either no test of that is green, or the test is named after something
    that the task speaks of, as `test_large_discount` in "Implement discount; see tests/test_shop.py".
    """
    name = re.split(r"::|\.(?=\w+$)", test)[-1].partition("[")[0]
    if test in text or ("test" in name.lower() and "/" not in name and _names(text, name)):
        return True
    for path in _PATH.findall(text):
        inside = f"{path.rpartition('.')[0]}/"
        if test == path or test.startswith(f"{path}::") or test.replace(".", "/").startswith(inside):
            return path in red_files or bool(_subjects(name) & _subjects(text))
    return False


def asks_for_all(text: str) -> bool:
    """Return whether a text says that all tests pass."""
    return _ALL_PASS.search(text) is not None


def _subjects(text: str) -> set[str]:
    """Return the words of a name or a text that say what it is about."""
    parted = re.sub(r"([a-z])([A-Z])", r"\1 \2", _PATH.sub(" ", text))
    return {word for word in re.findall(r"[a-z]{3,}", parted.lower()) if word not in _PLAIN}


def _name_unreachable(context: RunContext, checks: Collection[BaseCheck]) -> CheckUnready | None:
    """Return why no task can be `tested`: commands that are green and report no test show nothing."""
    required, checking = context.policy.require, context.checking
    pending = [with_kind(task, context.policy.kinds) for task in _pending(context)]
    builds = [task for task in pending if task.kind is TaskKind.BUILD]
    shown = checking.smoke or checking.scenarios or any("```scenario" in task.text for task in builds)
    mute = all(check.state is BaseState.GREEN and check.mute for check in checks)
    if required is None or required.rank < Level.TESTED.rank or not builds or shown or not mute:
        return None
    names = list_some([f"`{check.command}`" for check in checks], _LISTED)
    return CheckUnready(
        f'require = "{required}" cannot be reached: {names} reports no tests.',
        kept="No agent was launched." if not context.view.launches else "Everything done so far is kept.",
        hint='Add a check that runs tests, as checks = ["pytest -q"], or set require = "checked", '
        f"then: segue resume {context.journal.run.id}",
    )


def _refuse(context: RunContext, check: BaseCheck) -> CheckUnready:
    lines = "".join(f"\n  {line}" for line in check.output.splitlines())
    again = f"then: segue resume {context.journal.run.id}"
    said = f"The check `{check.command}` cannot start: {check.reason}."
    hint = (
        f"Repair it and commit that, or correct `checks`, {again}   "
        f'If a task makes it work: known_failures = ["{check.command}"]'
    )
    if check.too_long:
        said = f"The check `{check.command}` does not end: {check.reason}."
        hint = f"Raise check_timeout, or choose a faster command for `checks`, {again}"
    kept = "No agent was launched." if not context.view.launches else "Everything done so far is kept."
    return CheckUnready(said.replace("..", ".") + lines, kept=kept, hint=hint)
