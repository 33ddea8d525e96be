"""Builds proof cards from the events of a run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field

from segue.domain.amounts import format_count
from segue.domain.events import (
    CheckRun,
    Event,
    PlanRevised,
    Recorded,
    Reviewed,
    StepStarted,
    Tampered,
    TaskEnded,
    VerdictGiven,
)
from segue.domain.proof import CheckResult, Proof, Tampering
from segue.domain.results import ReviewOutput, read_as
from segue.domain.run import Run
from segue.domain.statement import MEANINGS, list_marks, name_level, state_proof
from segue.domain.task import Task
from segue.domain.verdict import CONTESTED, CriterionVerdict, Finding
from segue.flow.phase import PHASES
from segue.prompts.judge import criteria_of
from segue.reports.card.card import CheckCard, CriterionCard, ProofCard
from segue.view.load import load_view
from segue.view.task import TaskView

if TYPE_CHECKING:
    from segue.store.store import Store


_KINDS: tuple[type[Event], ...] = (
    *(StepStarted, VerdictGiven, CheckRun, Tampered, Reviewed, TaskEnded, PlanRevised),
)
_CHECK = ("check: ", "old test: ")
"""What the key of a criterion starts with when it is a command and not a sentence."""
_REVIEW = "SELECT output FROM orchestrator_steps WHERE run_id = ? AND key = ? ORDER BY gen DESC LIMIT 1"
_UNDECIDED = {
    "pending": "It has not begun.",
    "running": "It is being worked on.",
    "parked": "It waits for a usage limit to end, or for a service that is away.",
    "replanned": "A new plan has replaced it.",
}
_SAME = ("title", "state", "kind", "commit", "branch", "agent_id", "url", "attempts")
_NOT_RECORDED = "No proof was recorded."


class _Evidence(Struct):
    """What was observed about one task, as far as it still counts."""

    agents: dict[str, None] = field(default_factory=dict)
    criteria: tuple[CriterionVerdict, ...] = ()
    judge: str = ""
    contest: tuple[str, bool] | None = None
    """Who decided about contested files, and whether the task asked for the change."""
    checks: dict[tuple[str, str], CheckResult] = field(default_factory=dict)
    """The last round of checks, by command and by the task that they are about."""
    checked: str | None = None
    """The step of that round."""
    tampering: list[Tampering] = field(default_factory=list)
    review: str | None = None
    """The step of the last review."""
    proof: Proof | None = None
    """That of its end, also when it is not done."""


def build_cards(
    store: Store, run: Run, tasks: Sequence[Task] = (), keys: Collection[str] | None = None
) -> list[ProofCard]:
    """Build the cards of a run's tasks, or of some; `tasks` are those of the source, for the criteria."""
    events = list(store.events(run.id, kinds=_KINDS))
    view, known = load_view(store, run), _gather(events)
    sentences = _read_sentences(events, tasks)
    cards = []
    for task in view.tasks.values():
        if keys is not None and task.key not in keys:
            continue
        evidence = known[task.key]
        findings = read_findings(store, run, evidence.review) if task.remaining else ()
        sentences_of = sentences.get(task.key, {})
        cards.append(_build_card(run.id, task, evidence, sentences_of, view.isolation, findings))
    return cards


def build_own_card(work: TaskView, checks: Sequence[CheckResult]) -> ProofCard:
    """Build the card of work that is no task of a run."""
    known = _Evidence(checks={(one.command, one.of): one for one in checks}, proof=work.proof)
    return _build_card("", work, known, {}, "", ())


def _gather(events: Sequence[Recorded]) -> Mapping[str, _Evidence]:
    """Sort what was observed by task."""
    found: defaultdict[str, _Evidence] = defaultdict(_Evidence)
    names: dict[str | None, str] = {}
    for recorded in events:
        event = recorded.event
        if isinstance(event, StepStarted):
            names[recorded.step] = " ".join(filter(None, (event.agent, event.model)))
        task = getattr(event, "task", None)
        if task:
            _take(found[task], event, recorded.step, names.get(recorded.step, ""))
    return found


def _take(known: _Evidence, event: Event, step: str | None, who: str) -> None:
    match event:
        case StepStarted(phase=phase) if who and phase in PHASES and PHASES[phase].edits:
            known.agents[who] = None
        case VerdictGiven(criteria=criteria) if "/check/" not in (step or ""):  # no judge said that
            judged = tuple(one for one in criteria if not one.key.startswith(_CHECK))
            if judged and judged[0].key == CONTESTED:
                known.contest = who, judged[0].met
            elif judged:
                known.criteria, known.judge = judged, who
        case CheckRun():
            if step != known.checked:
                known.checks, known.checked = {}, step
            check = event.result or CheckResult(event.command, event.exit_code, "")
            known.checks[check.command, check.of] = check
        case Tampered(findings=findings):
            known.tampering += findings
        case Reviewed():
            known.review = step
        case TaskEnded(proof=proof):
            known.proof = proof


def _read_sentences(events: Sequence[Recorded], tasks: Sequence[Task]) -> dict[str, dict[str, str]]:
    """Return the sentences of the criteria by task and key: as planned, then as the source has them."""
    planned = [task for one in events if isinstance(one.event, PlanRevised) for task in one.event.new]
    return {task.key: {one.key: one.text for one in criteria_of(task)} for task in (*planned, *tasks)}


def _build_card(
    run: str,
    task: TaskView,
    known: _Evidence,
    sentences: Mapping[str, str],
    isolation: str,
    findings: tuple[Finding, ...],
) -> ProofCard:
    proof, end = task.proof, known.proof
    shown = proof or end
    decided_by = tuple(_who_decided(task, known))
    person = proof.by if proof and proof.is_accepted else ""
    decided = (person, True) if person else known.contest or ("", None)
    cards = tuple(CheckCard.read(check, *decided) for check in _list_checks(known))
    criteria = tuple(
        CriterionCard(one.key, sentences.get(one.key, ""), one.met, one.evidence) for one in known.criteria
    )
    marks, said = (list_marks(shown), state_proof(shown)) if shown else ([], None)
    unproven = _NOT_RECORDED if task.state == "done" else ""
    return ProofCard(
        run=run,
        **{name: getattr(task, name) for name in _SAME},
        task=task.key,
        level=proof.level if proof else None,
        proof=name_level(proof) if proof else None,
        marks=tuple(mark.name for mark in marks),
        summary=said.summary if said else unproven,
        shown=said.shown if said else (),
        not_shown=said.not_shown if said else (),
        look_at=said.look_at if said else (),
        conclusion=task.conclusion,
        meaning=MEANINGS[proof.level] if proof else unproven,
        missing=() if task.state in ("done", "unchanged") else tuple(_name_missing(task, criteria, cards)),
        reasons=shown.reasons if shown else (),
        decided_by=decided_by,
        judge=known.judge,
        criteria=criteria,
        checks=cards,
        tampering=tuple(known.tampering),
        open_findings=task.remaining,
        findings=findings,
        independent=shown.independent if shown else None,
        dropped=shown.dropped if shown else (),
        mutants=shown.mutants if shown else None,
        held=shown.held if shown else None,
        base=shown.base if shown else "",
        tree=shown.tree if shown else "",
        agents=tuple(known.agents),
        isolation=isolation or None,
        seconds=None if task.started is None else task.work_ms / 1000,
        tokens=task.usage.tokens,
        cost_usd=task.usage.cost_usd,
        over_budget=task.over_budget,
    )


def _list_checks(known: _Evidence) -> Iterator[CheckResult]:
    """Yield the checks of the proof, or the last round; the proof leaves out what was contested."""
    if known.proof is None or not known.proof.checks:
        yield from known.checks.values()
        return
    for check in known.proof.checks:
        seen = known.checks.get((check.command, check.of), check)
        yield msgspec.structs.replace(check, contested=check.contested or seen.contested)


def _who_decided(task: TaskView, known: _Evidence) -> Iterator[str]:
    """Name a person who decided, or else what did: the checks and the judge."""
    if task.proof and task.proof.is_accepted:
        yield task.proof.by or "a person"
    elif task.proof:
        if task.proof.level.proven:
            yield "checks"
        if known.criteria:
            yield f"judge {known.judge}".strip()


def _name_missing(
    task: TaskView, criteria: Sequence[CriterionCard], checks: Sequence[CheckCard]
) -> Iterator[str]:
    """Say why a task is not done, the most general reason first."""
    yield (
        task.reason
        if task.state in ("needs_human", "skipped", "stopped", "failed") and task.reason
        else (_UNDECIDED.get(task.state, "It was interrupted."))
    )
    for criterion in criteria:
        if not criterion.met:
            yield f"Criterion {criterion.key} is not met: {criterion.text or criterion.quote}"
    for check in checks:
        if not check.ok:
            yield f"Check {check.command}: {check.state}" + (f": {check.reason}" if check.reason else "")
    if task.remaining:
        yield f"{format_count(task.remaining, 'review finding')} open"


def read_findings(store: Store, run: Run, step: str | None) -> tuple[Finding, ...]:
    """Return what the last review reported."""
    rows = store.query(_REVIEW, [run.id, step]) if step else []
    try:
        return read_as(ReviewOutput, rows[0]["output"]).findings if rows else ()
    except msgspec.ValidationError:  # of another version
        return ()
