"""The proof card as data: what programs read."""

from __future__ import annotations

from typing import Any

import msgspec

from segue.domain.proof import (
    ChangedTest,
    CheckResult,
    CheckState,
    IndependentTests,
    Level,
    Seal,
    Tampering,
)
from segue.domain.task import TaskKind
from segue.domain.verdict import Finding


class CriterionCard(msgspec.Struct, frozen=True):
    """What the judge said about one criterion."""

    key: str
    text: str
    """Its sentence; empty if the source does not have it any more."""
    met: bool
    quote: str


class ContestedCard(msgspec.Struct, frozen=True):
    """A control file that the agent changed, and who decided which version counts."""

    path: str
    tests: tuple[str, ...]
    decided_by: str
    """Empty: nobody yet."""
    asked_for: bool | None
    """Whether the task asked for the change, as decided; None: nobody decided."""


class CheckCard(msgspec.Struct, frozen=True, kw_only=True):
    """What one check said, without its output."""

    command: str
    state: CheckState
    exit_code: int | None
    reason: str
    runner: str
    passed: int
    failing: tuple[str, ...]
    broken: tuple[str, ...]
    proved: tuple[str, ...]
    own: tuple[str, ...]
    idle: tuple[str, ...]
    lost: tuple[str, ...]
    flaky: tuple[str, ...]
    changed_tests: tuple[ChangedTest, ...]
    both_sides: tuple[str, ...]
    cap: str
    mutants: tuple[int, int] | None
    survivors: tuple[str, ...]
    blunt: str
    known: tuple[str, ...]
    repaired: tuple[str, ...]
    contested: tuple[ContestedCard, ...]
    noticed: bool | None
    seal: Seal
    weaknesses: tuple[str, ...]
    changed: tuple[str, ...]
    scenario: bool
    of: str
    """The earlier task whose proof was run again; empty: it is about this one."""
    environment: str
    """Which environment judged, where the task changed what it is built from."""

    @classmethod
    def read(cls, check: CheckResult, decided_by: str = "", asked_for: bool | None = None) -> CheckCard:
        """Return the card of a check, with who decided about contested files and how."""
        by_code = CheckState.PASSED if check.exit_code == 0 else CheckState.FAILED
        known = {name: getattr(check, name) for name in cls.__struct_fields__ if hasattr(check, name)}
        contested = tuple(
            ContestedCard(one.path, one.tests, decided_by, asked_for) for one in check.contested
        )
        state = check.state or (CheckState.BROKEN if check.exit_code is None else by_code)
        return cls(**{**known, "state": state, "contested": contested})

    @property
    def ok(self) -> bool:
        """Whether nothing speaks against the work."""
        return self.state in (CheckState.PASSED, CheckState.NOTHING)


class ProofCard(msgspec.Struct, frozen=True, kw_only=True):
    """The evidence for one task of a run, or what is missing."""

    run: str
    task: str
    title: str
    state: str
    kind: TaskKind | None
    level: Level | None
    """None: the task is not done, or no proof was recorded."""
    proof: str | None
    """The level as `status --json` has it."""
    marks: tuple[str, ...]
    """What is known beside the level: `held`, `judged`, `by its own tests`."""
    summary: str
    """What is shown and what is not, in one sentence."""
    shown: tuple[str, ...]
    not_shown: tuple[str, ...]
    look_at: tuple[str, ...]
    """Places that a person should look at, as `path:line`."""
    conclusion: str
    """The level in words: `changed, not verified`, `PASS (tested)`."""
    meaning: str
    """What the level means, in one sentence."""
    missing: tuple[str, ...]
    """What keeps it from being done."""
    reasons: tuple[str, ...]
    """Why the proof is not stronger, and what is weak about it."""
    decided_by: tuple[str, ...]
    judge: str
    """Who judged the criteria; empty: nobody."""
    criteria: tuple[CriterionCard, ...]
    checks: tuple[CheckCard, ...]
    tampering: tuple[Tampering, ...]
    open_findings: int
    findings: tuple[Finding, ...]
    """Review findings that are still open."""
    independent: IndependentTests | None
    dropped: tuple[str, ...]
    """Tests by somebody who never saw the change."""
    mutants: tuple[int, int] | None
    """Mutants of the changed lines, and how many of them the tests noticed."""
    held: tuple[int, int] | None
    """Proofs of earlier tasks that were run again, and how many of them still hold."""
    base: str
    tree: str
    commit: str | None
    branch: str | None
    agent_id: str | None
    """The vendor's id of the cloud agent that worked on it last."""
    url: str | None
    """Its page."""
    agents: tuple[str, ...]
    """Who worked on it: agents, with their models."""
    isolation: str | None
    """The sandbox that they worked in, or `not isolated`; None: not known, or they worked elsewhere."""
    attempts: int
    seconds: float | None
    tokens: int
    cost_usd: float | None
    over_budget: str = ""
    """By how much that is more than a cap allows."""

    def to_json(self) -> dict[str, Any]:
        """Return what programs read."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        return data
