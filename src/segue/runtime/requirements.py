"""Refuses what is asked of proofs when a run cannot reach it as it is configured."""

from __future__ import annotations

from segue.config.settings import Settings
from segue.domain.errors import UsageError
from segue.domain.options import OptionError
from segue.domain.proof import Level
from segue.domain.scenario import Scenario, scenarios_in
from segue.domain.task import TaskList
from segue.flow.phase import Flow


def check_proof(settings: Settings, flow: Flow, judged: bool, listing: TaskList) -> None:
    """Refuse settings about proofs that cannot work, scenarios with mistakes, and levels out of reach.

    `judged`: somebody judges who looks at more than the checks.
    """
    scenarios = (*settings.proof.scenarios, *_read_scenarios(listing))
    checks = bool(settings.checks or settings.smoke)
    for name, wanted in (("independent", flow.has("independent")), ("mutants", settings.proof.mutants)):
        if wanted and not checks:
            raise UsageError(
                f"[proof] {name} has no effect: there are no checks to run the tests.",
                hint='Set checks = ["pytest -q"]',
            )
    if settings.require not in (None, Level.CHANGED):
        _check_level(settings.require, flow, judged, checks, bool(scenarios))


def _read_scenarios(listing: TaskList) -> list[Scenario]:
    found: list[Scenario] = []
    for task in listing.tasks:
        try:
            found += scenarios_in(task.text)
        except OptionError as error:
            raise UsageError(
                f"A scenario of task {task.key} cannot be used: {error}", hint="See: segue help proof"
            ) from None
    return found


def _check_level(level: Level, flow: Flow, judged: bool, checks: bool, scenarios: bool) -> None:
    refused = f'require = "{level}" cannot be reached'
    if level is Level.ACCEPTED:
        raise UsageError(f"{refused} by a run: only a person can accept a task.", hint="Require less")
    shown = checks or scenarios
    if level is Level.JUDGED and not (shown or judged):
        raise UsageError(
            f"{refused}: nobody judges, and there are no checks.",
            hint='Set judged_by = "llm" or judged_by = "agent"',
        )
    if level.rank >= Level.CHECKED.rank and not shown:
        raise UsageError(
            f"{refused}: there are no checks.", hint='Set checks = ["pytest -q"], or require less'
        )
    if level is Level.INDEPENDENT and not (flow.has("independent") or scenarios):
        raise UsageError(
            f"{refused}: nobody writes independent tests, and there are no scenarios.",
            hint="Set independent = true in [proof], add [[proof.scenarios]], or require less",
        )
