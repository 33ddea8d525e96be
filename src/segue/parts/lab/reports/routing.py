"""Reports what agents' attempts cost and reached by kind, and what other choices would have cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from segue.parts.lab.reports.report import Cell, DatasetReport, ReportTable, make_table
from segue.parts.lab.reports.selection import Dataset
from segue.parts.lab.reports.statistics import Mean, Proportion, mean, single_cases

FEWEST_TASKS = 5
"""With fewer tasks nothing is said about what another choice would have cost."""

_USED = ("seconds", "tokens", "cost_usd")


class AgentShare(Struct, frozen=True):
    """What one agent did for one task, and whether the task was done with that."""

    run: str
    task: str
    kind: str
    agent: str
    attempts: int
    reached: bool
    seconds: float | None
    tokens: float | None
    cost_usd: float | None
    first: str | None
    """Who began the task, where somebody stronger might have taken over."""


def report_routing(dataset: Dataset) -> DatasetReport:
    """Report who did what at what price, and what always the first, or always the last, would have cost."""
    turns = read_turns(dataset)
    tables = (_tabulate_agents(turns), _tabulate_choices([turn for turn in turns if turn.first]))
    return DatasetReport("routing", "Routing", len({turn.run for turn in turns}), tables)


def read_turns(dataset: Dataset) -> list[AgentShare]:
    """Return who worked on which task, in order; a task counts for the agent who worked on it last."""
    done = {
        (row["run_id"], row["task"])
        for row in dataset.ask("tasks")
        if row["done"] and not row["skipped"] and not row["replaced"]
    }
    groups: dict[tuple[str, str], dict[str, list[Mapping[str, Any]]]] = defaultdict(dict)
    for row in dataset.ask("routing"):
        name = f"{row['agent']}:{row['model']}" if row["model"] else row["agent"]
        own = groups[row["run_id"], row["task"]]
        own[name] = [*own.pop(name, []), row]  # whoever worked last comes last
    turns = []
    for (run, task), agents in groups.items():
        last = [*agents][-1]
        for name, rows in agents.items():
            reached = name == last and (run, task) in done
            seconds, tokens, cost = (_sum(row[what] for row in rows) for what in _USED)
            kind, first = rows[0]["kind"], rows[0]["first"]
            turns.append(AgentShare(run, task, kind, name, len(rows), reached, seconds, tokens, cost, first))
    return turns


def _sum(values: Iterable[float | None]) -> float | None:
    """Add up what was reported; None if something was not."""
    known = list(values)
    return None if None in known else sum(value for value in known if value is not None)


def _tabulate_agents(turns: Sequence[AgentShare]) -> ReportTable:
    groups: dict[tuple[str, str], list[AgentShare]] = defaultdict(list)
    for turn in turns:
        groups[turn.kind, turn.agent].append(turn)
    rows: list[tuple[Cell, ...]] = [
        (
            *(kind, agent, sum(turn.attempts for turn in own)),
            _reached(own),
            *(_average(own, what) for what in _USED),
        )
        for (kind, agent), own in sorted(groups.items())
    ]
    return make_table("routing", rows)


def _tabulate_choices(turns: Sequence[AgentShare]) -> ReportTable:
    """Tabulate what the tasks cost that somebody stronger might have taken over, and would have cost."""
    kinds: dict[str, list[AgentShare]] = defaultdict(list)
    for turn in turns:
        kinds[turn.kind].append(turn)
    rows = [row for kind, own in sorted(kinds.items()) for row in _compare(kind, own)]
    return make_table("routing_choices", rows, few=str(FEWEST_TASKS))


def _compare(kind: str, turns: Sequence[AgentShare]) -> Iterable[tuple[Cell, ...]]:
    tasks: dict[tuple[str, str], list[AgentShare]] = defaultdict(list)
    for turn in turns:
        tasks[turn.run, turn.task].append(turn)
    whole = [_sum(turn.cost_usd for turn in own) for own in tasks.values()]
    ended = _share(any(turn.reached for turn in own) for own in tasks.values())
    yield kind, "as it was", "", len(tasks), ended, _total(whole, len(tasks)), "measured"
    firsts = [turn for turn in turns if turn.agent == turn.first]
    lasts = _stronger(turns)
    for choice, own in (("always the first", firsts), ("always the last", lasts)):
        names = ", ".join(sorted({turn.agent for turn in own}))
        if len(own) < FEWEST_TASKS:
            said = f"too few data: {len(own)} of at least {FEWEST_TASKS} tasks"
            yield kind, choice, names, len(own), None, None, said
            continue
        cost = _total([turn.cost_usd for turn in own], len(tasks))
        whose = "measured" if len(own) == len(tasks) else f"estimated from {len(own)} tasks that it got"
        yield kind, choice, names, len(own), _reached(own), cost, whose


def _stronger(turns: Sequence[AgentShare]) -> list[AgentShare]:
    """Return the turns of those who come last: whoever follows all others in some task."""
    order: dict[str, int] = {}
    for run, task in dict.fromkeys((turn.run, turn.task) for turn in turns):
        own = [turn.agent for turn in turns if (turn.run, turn.task) == (run, task)]
        for place, agent in enumerate(own):
            order[agent] = max(order.get(agent, 0), place)
    top = max(order.values(), default=0)
    return [turn for turn in turns if top and order[turn.agent] == top]


def _reached(turns: Sequence[AgentShare]) -> Proportion:
    """Return how often a task was done."""
    return _share(turn.reached for turn in turns)


def _share(tasks: Iterable[bool]) -> Proportion:
    """Return how often it was so; the interval is for other tasks, as those of the next run."""
    found = list(tasks)
    return replace(single_cases(sum(found), len(found)), unit="task")


def _average(turns: Sequence[AgentShare], what: str) -> Mean:
    values = [getattr(turn, what) for turn in turns]
    return mean([value for value in values if value is not None])


def _total(values: Sequence[float | None], tasks: int) -> Mean | None:
    """Return what so many tasks cost, if they cost what these did on average."""
    known = [value for value in values if value is not None]
    found = mean(known)
    if found.value is None:
        return None
    if len(known) == tasks:
        return Mean(found.n, sum(known))
    low, high = (None if end is None else end * tasks for end in (found.low, found.high))
    return Mean(found.n, found.value * tasks, low, high)
