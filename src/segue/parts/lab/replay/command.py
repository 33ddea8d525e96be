"""`segue replay`: decide again about recorded attempts, or repeat launches that were recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from segue.cli.options import CommandSettings, options
from segue.cli.terminal.output import Printer

if TYPE_CHECKING:
    from segue.parts.lab.replay.decide import OtherPolicy
    from segue.parts.lab.replay.launches import ReplayedLaunch
    from segue.parts.lab.replay.points import Spending
    from segue.parts.lab.replay.replay import Replay, ReplayedDecision
    from segue.ports import Judge
    from segue.runtime.app import App

_SETTINGS = ("limits.resolutions", "require")


@click.command()
@click.argument("run_ids", metavar="[RUN]...", nargs=-1)
@click.option(
    "--judge",
    metavar="NAME",
    help="Judge the recorded evidence again: llm, llm:MODEL, checks, a plug-in, or a list with commas.",
)
@click.option(
    "--checks", multiple=True, metavar="COMMAND", help="Count only this check, or pattern (repeatable)."
)
@click.option(
    "--policy",
    "changed",
    multiple=True,
    metavar="SETTING=VALUE",
    help="Decide with another limits.resolutions or require (repeatable).",
)
@click.option(
    "--agent",
    "launches",
    is_flag=True,
    help="Launch recorded agents again, with their recorded models, up to the first difference.",
)
@options("repo", "config", "trust", "database", "json")
def replay(
    run_ids: tuple[str, ...],
    judge: str | None,
    checks: tuple[str, ...],
    changed: tuple[str, ...],
    launches: bool,
    settings: CommandSettings,
    output: Printer,
) -> int:
    """Show what would have been decided about recorded attempts under another judge or policy.

    RUN is the newest run if it is left out. No agent is launched, no check is run, and nothing is written.
    Only a judge that asks a model costs something.

    With --agent, the launches of Claude Code and Codex that were recorded (record = true) are repeated in a
    clone of the repository. Recorded answers take the place of the model: no network and no key is needed.
    It ends with 3 where an agent asks or does something else than recorded.

    \b
    Examples:
      segue replay last --checks "pytest -q"
      segue replay last --policy limits.resolutions=0
      segue replay 20261115-0219 20261116-1003 --policy require=tested
      segue replay last --judge llm:gpt-4o --json
      segue replay last --agent
    """
    import asyncio

    from segue.cli.runs import find_run
    from segue.domain.errors import UsageError
    from segue.parts.lab.replay.replay import replay_runs

    if launches:
        if judge or checks or changed:
            raise UsageError(
                "--agent repeats launches; it decides nothing.",
                hint="Leave --judge, --checks and --policy out",
            )
        return replay_agents(settings.load(), run_ids or ("last",), output)
    policy = _read_policy(checks, changed)
    if not (judge or checks or changed):
        raise UsageError(
            "There is nothing to decide differently.", hint="Add --judge, --checks, --policy or --agent"
        )
    app, judges = _make_judges(settings, judge)
    with app.store(read_only=True) as store:
        found = {run.id: run for run in (find_run(store, app, name) for name in run_ids or ("last",))}
        result = asyncio.run(replay_runs(store, app, list(found.values()), judges, policy))
    output.result(result.to_json(), "\n".join(_describe(result)))
    return 0


def _read_policy(checks: tuple[str, ...], changed: Sequence[str]) -> OtherPolicy:
    from segue.domain.errors import UsageError
    from segue.domain.proof import Level
    from segue.parts.lab.replay.decide import OtherPolicy

    values: dict[str, Any] = {}
    levels = {level.value: level for level in Level}
    for item in changed:
        name, _, text = item.partition("=")
        if name not in _SETTINGS:
            raise UsageError(
                f"--policy {item}: only {' and '.join(_SETTINGS)} can be replayed.",
                hint="For example: --policy limits.resolutions=1",
            )
        if name in values:
            raise UsageError(f"--policy {name} is given twice.", hint="Give it once")
        try:
            values[name] = levels[text] if name == "require" else _count(text)
        except (KeyError, ValueError):
            wanted = ", ".join(Level) if name == "require" else "a number from 0"
            raise UsageError(f"--policy {item}: expected {wanted}.", hint="See: segue help replay") from None
    if checks and "require" in values:
        raise UsageError(
            "--checks and --policy require cannot be replayed together: a proof rests on all its checks.",
            hint="Replay one after the other",
        )
    return OtherPolicy(checks, values.get("limits.resolutions"), values.get("require"))


def _count(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(text)
    return int(text)


def _make_judges(settings: CommandSettings, named: str | None) -> tuple[App, list[Judge]]:
    """Build those who judge; who asks a model needs settings that are trusted."""
    from segue.domain.errors import UsageError
    from segue.runtime import registry
    from segue.runtime.wiring import make_judging
    from segue.system.process.processes import Processes

    if named is None:
        return settings.look(), []
    choices = [name.strip().partition(":") for name in named.split(",")]
    names = [name for name, _, _ in choices]
    models = {name: model for name, colon, model in choices if colon}
    if "agent" in names:
        raise UsageError(
            "An agent as judge would be launched, and replay launches none.",
            hint="Name a model: --judge llm, or judge.model and --judge llm:MODEL",
        )
    if not all(model and registry.says("judges", name, "by_model") for name, model in models.items()):
        raise UsageError(f"--judge {named}: only llm takes a model.", hint="For example: --judge llm:gpt-4o")
    if len(set(names)) < len(names):
        raise UsageError(f"--judge {named} names the same judge twice.", hint="Name each once")
    if all(registry.says("judges", name, "by_checks") for name in names):
        app = settings.look()
    else:
        model = next(iter(models.values()), None)
        app = settings.load(**({"judge": {"model": model}} if model else {}))
    judging = make_judging(names, app, app.services(Processes()))
    return app, [judge for judge in judging.judges if judge is not None]


def _describe(result: Replay) -> Iterator[str]:
    differences, undecided = result.differences, result.undecided
    yield (
        f"{_count_of(len(result.decisions), 'decision')} of {_count_of(result.runs, 'run')} replayed: "
        f"{len(differences)} differ, {len(undecided)} cannot be decided."
    )
    for one in differences:
        yield f"{_place(one)}  {one.point.decision} → {one.now.decision}  {_why(one)}"
        yield f"    {_cost(one)}"
    if undecided:
        yield "Not decided, because the record lacks something:"
    for one in undecided:
        yield f"{_place(one)}  {one.now.lacks}"
    if differences:
        more = f"; what {_count_of(result.more, 'task')} would have cost instead is unknown"
        yield f"In all: {_spending(result.less)} less{more if result.more else ''}."


def _place(one: ReplayedDecision) -> str:
    return f"  {one.point.run}  {one.point.step}"


def _why(one: ReplayedDecision) -> str:
    from segue.cli.terminal.output import one_line

    return one_line(one.now.verdict.reason, 80) if one.now.verdict else ""


def _cost(one: ReplayedDecision) -> str:
    after = "the task would have ended here" if one.ends else "what follows instead is unknown"
    return f"{_spending(one.point.later)} less; {after}"


def _spending(amount: Spending) -> str:
    from segue.domain.amounts import format_quantity

    if not amount.launches:
        return "no launch"
    tokens = "tokens not reported" if amount.tokens is None else f"{amount.tokens:,} tokens"
    cost = "cost not reported"
    if amount.cost_usd is not None:
        cost = format_quantity(amount.cost_usd, "cost_usd")
    return f"{_count_of(amount.launches, 'launch')} ({tokens}, {cost})"


def _count_of(number: int, word: str) -> str:
    plural = f"{word}es" if word.endswith("ch") else f"{word}s"
    return f"{number:,} {word if number == 1 else plural}"


def replay_agents(app: App, names: Sequence[str], output: Printer) -> int:
    """Replay the launches of runs and print what came of it; return the exit code."""
    import asyncio

    from segue.cli.runs import find_run
    from segue.domain.errors import NeedsHuman
    from segue.parts.lab.replay.launches import replay_launches

    with app.store(read_only=True) as store:
        runs = {run.id: run for run in (find_run(store, app, name) for name in names)}
        replayed = asyncio.run(replay_launches(store, app, list(runs.values()), output.note))
    lines = [line for one in replayed for line in _describe_launch(one)]
    output.result({"launches": [one.to_json() for one in replayed]}, "\n".join(lines))
    return 0 if replayed[-1].same else NeedsHuman.exit_code


def _describe_launch(one: ReplayedLaunch) -> Iterator[str]:
    head = f"{one.run}  {one.step}  {one.agent} {one.version}"
    other = one.other
    if other is None and not one.patch:
        yield f"{head}: all {one.requests} requests and the work are as recorded."
    elif other is None:
        yield f"{head}: all {one.requests} requests are as recorded, but the work differs."
        yield from one.patch
    elif other.found is None:
        yield f"{head}: request {other.number} of {other.of} was recorded, but the agent ended without it."
        if one.failure:
            yield f"The agent: {one.failure}"
    else:
        what = f"request {other.number} of {other.of} differs"
        if other.extra:
            what = f"the agent asks more than the {other.of} recorded requests"
        yield f"{head}: {what}, first in {other.found.place}."
        yield from other.found.diff
