"""What the steps of a run store when they have ended, and what they were given: typed, read in one place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import msgspec

from segue.domain.errors import DamagedRecord
from segue.domain.outcome import Failure, Usage
from segue.domain.proof import BaseCheck, CheckResult, Proof, Tampering
from segue.domain.task import Task
from segue.domain.verdict import Finding, Verdict
from segue.domain.workspace import Snapshot


class Output(msgspec.Struct, frozen=True, omit_defaults=True):
    """Base of everything a step stores; unknown keys are ignored, so that other versions can be read."""


class Nothing(Output, frozen=True):
    """The output of a step whose end alone matters."""


class LaunchInput(Output, frozen=True):
    """What is known before a launch and needed after it, also by another process."""

    prompt: str = ""
    """The digest of the prompt."""
    tree: Snapshot | None = None
    """The work tree before an agent that must not edit was launched."""
    words: tuple[int, ...] = ()
    """What people said that the prompt says, by the numbers of its events."""
    more: bool = False
    """Whether it follows a launch that succeeded, because somebody has said more."""


class SleepInput(Output, frozen=True):
    """When a sleep ends, in seconds since the epoch."""

    until: float = 0.0


class SnapshotOutput(Output, frozen=True):
    """The work tree when a task began."""

    head: str = ""
    branch: str = ""
    dirty: str = ""
    lane: int = 0
    """The lane it is worked on in; 0: the run works on one task at a time."""
    seen: int = 0
    """In a lane: tasks that ended before this instant, in milliseconds since the epoch, are part of it."""
    heavy: tuple[str, ...] = ()
    """Files that were too large for git already, each with its size."""
    links: tuple[str, ...] = ()
    """Folders that had a repository of their own already."""
    tree: str = ""
    """What was there as a git tree, if something was uncommitted."""


class AsideOutput(Output, frozen=True):
    """Where the work of a task is kept that failed."""

    ref: str = ""
    """Empty: there was nothing to keep."""
    files: tuple[str, ...] = ()


class BackOutput(Output, frozen=True):
    """Whether kept work could be put into the work tree again."""

    misfits: tuple[str, ...] = ()
    """The files that do not fit what others have done since; empty: it is all there."""


class LaunchOutput(Output, frozen=True, kw_only=True):
    """How a launch ended, and what it left."""

    verdict: Verdict
    failure: Failure | None = None
    changed: bool = False
    files: tuple[str, ...] = ()
    files_changed: int = 0
    head: str = ""
    branch: str = ""
    exit_code: int | None = None
    agent: str = ""
    session: str | None = None
    continued: bool = False
    """Whether it continued an earlier conversation."""
    model: str | None = None
    usage: Usage | None = None
    duration: float = 0.0
    text: str = ""
    steps: tuple[Task, ...] = ()
    """The steps of a plan, of a launch that planned."""
    checks: tuple[CheckResult, ...] = ()
    """The checks that a judging agent was shown."""
    tampering: tuple[Tampering, ...] = ()
    """What the agent changed that decides whether its work counts."""
    branches: tuple[str, ...] = ()
    agent_id: str | None = None
    url: str | None = None


class RungOutput(Output, frozen=True):
    """With whom a task begins, where somebody stronger may take over."""

    rung: int = 0
    """The place among those who may do it, the weakest first."""
    tried: tuple[str, ...] = ()
    """Who tried before, and why that was refused."""


class MoreOutput(Output, frozen=True):
    """What people had said, when a task was about to end, that no agent had got."""

    words: tuple[int, ...] = ()


class WordsOutput(Output, frozen=True):
    """What a person decided about a task before it began, or once it had failed."""

    skip: str = ""
    """Why it is skipped; empty: it is not."""
    by: str = ""
    """Who said it."""
    accept: str = ""
    """Why it counts as done as it is; empty: it does not."""


class JudgeOutput(Output, frozen=True, kw_only=True):
    """What a judge concluded, or why there is no verdict; a launch of a judging agent reads as one too."""

    verdict: Verdict
    checks: tuple[CheckResult, ...] = ()
    failure: Failure | None = None


class CheckOutput(Output, frozen=True):
    """What the checks said."""

    checks: tuple[CheckResult, ...] = ()
    tree: str = ""
    """The git tree they ran on."""


class HookOutput(Output, frozen=True):
    """What the repository's own hooks said before a commit."""

    check: CheckResult | None = None
    """None: there are none."""
    tree: str = ""
    """The git tree that they left."""
    label: str = ""
    """Which commit it was about."""
    message: str = ""
    """Its message as they have left it; empty: as it was."""
    changed: tuple[str, ...] = ()
    """The files that they changed."""

    @property
    def is_allowed(self) -> bool:
        """Whether the hooks allow the commit."""
        return self.check is None or self.check.ok


class BaseOutput(Output, frozen=True):
    """What the checks said before the first launch."""

    checks: tuple[BaseCheck, ...] = ()


class ExamOutput(Output, frozen=True):
    """What running independent tests without any work has shown."""

    unusable: dict[str, str] = {}
    """Tests that show nothing, each with the reason."""
    repeats: bool = False
    """Whether they ask for nothing but examples that the worker sees."""


class LackOutput(Output, frozen=True):
    """What the agent was told that the proof of its work lacks."""

    text: str = ""
    """Empty: it was not sent back, because the budget was used up."""


class ReviewOutput(Output, frozen=True):
    """What a reviewer reported."""

    findings: tuple[Finding, ...] = ()
    failure: str = ""
    needs_human: bool = False
    output: str = ""


class CommitOutput(Output, frozen=True):
    """The commit that was made; None: there was nothing to commit."""

    commit: str | None = None


class MergeOutput(Output, frozen=True, kw_only=True):
    """How the work of a task was brought onto the branch of the run, or why it does not fit."""

    commit: str = ""
    """What the branch is at with it; empty: it does not fit."""
    before: str = ""
    """What the branch was at before."""
    files: tuple[str, ...] = ()
    """The files that both sides changed in the same place."""
    tasks: tuple[str, ...] = ()
    """The tasks whose work it does not fit."""
    reason: str = ""


class WorkNote(Output, frozen=True):
    """What a task really did, for those who continue on its work."""

    files: tuple[str, ...] = ()
    names: str = ""
    """The public names that it made or changed, with signatures, by file."""
    said: str = ""
    """What its agent said at last: decisions, open ends."""
    demanded: tuple[str, ...] = ()
    """What checks, judges and reviewers asked for."""


class EndOutput(Output, frozen=True, kw_only=True):
    """How a task ended in this run."""

    done: bool = False
    reason: str = ""
    attempts: int = 0
    commit: str | None = None
    remaining: int = 0
    branch: str | None = None
    skipped: bool = False
    replanned: bool = False
    proof: Proof | None = None
    note: WorkNote | None = None
    """What the next tasks are told."""


class DiagnosticOutput(Output, frozen=True):
    """What a command said that a judge asked for."""

    command: str = ""
    allowed: bool = False
    reason: str = ""
    exit_code: int | None = None
    seconds: float = 0.0
    output: str = ""


class FinalOutput(Output, frozen=True):
    """What a command said that runs after the last task."""

    exit_code: int | None = None
    output: str = ""


OUTPUTS: tuple[type[Output], ...] = (
    *(SnapshotOutput, LaunchOutput, CheckOutput, LackOutput, ReviewOutput, JudgeOutput),
    *(DiagnosticOutput, CommitOutput, EndOutput, FinalOutput, BaseOutput),
    ExamOutput,
)
"""What the steps of tasks store, in the order of a task's life."""


R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")


class StepResult(msgspec.Struct, Generic[R_co], frozen=True):
    """How a step ended: whether it succeeded, and what it stored."""

    ok: bool
    output: R_co
    soon: bool = False
    """Whether it may be stored with the next transaction: a repetition after a crash finds the same."""


def read_as(kind: type[T], stored: Mapping[str, Any]) -> T:
    """Return what a step stored, as the type its reader expects."""
    try:
        return msgspec.convert(stored, kind)
    except msgspec.ValidationError as error:
        raise DamagedRecord(f"a step ({kind.__name__})", str(error)) from None


def read_launch(given: Mapping[str, Any], stored: Mapping[str, Any]) -> LaunchOutput | None:
    """Return how a launch ended, from what its step stored; None for other steps and before its end."""
    is_ended_launch = given.get("prompt") and "verdict" in stored
    return read_as(LaunchOutput, stored) if is_ended_launch else None


def to_json(value: object) -> dict[str, Any]:
    """Return a typed value as the JSON object that is stored."""
    data: dict[str, Any] = msgspec.to_builtins(value)
    return data


class StepFacts(msgspec.Struct, frozen=True):
    """What the journal stores of a step before it begins."""

    task: str | None = None
    phase: str | None = None
    attempt: int = 1
    agent: str | None = None
    model: str | None = None
    build_phase: str | None = None
    input: Output = msgspec.field(default_factory=Nothing)
    proves: bool = False
    """Whether it runs checks."""


R = TypeVar("R", bound=Output)
