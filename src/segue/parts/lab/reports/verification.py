"""Reports whether verification is right: what judges, checks and levels said, beside what labels say.

Labels by people, files and hidden tests can say both, so rates rest on them. What `git` finds is only ever
bad: it is counted beside all work of a level, as the least that was wrong.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from statistics import NormalDist

from segue.domain.proof import Level
from segue.parts.lab.reports.report import (
    Cell,
    DatasetReport,
    ReportTable,
    format_cell,
    format_percent,
    make_table,
)
from segue.parts.lab.reports.selection import Dataset
from segue.parts.lab.reports.statistics import (
    CONFIDENCE,
    Difference,
    Proportion,
    conclude,
    generalize,
    subtract,
)
from segue.reports.timeline import Rows

_TRUST = ("person", "tests", "file", "git")
"""Whose word counts where several have labelled the same work: the first."""
_ONE_SIDED = "git"
_ORDER = ("judge", "check", "level")
_WIDTH = 0.1
"""Rates are known well enough where their interval reaches no further to either side."""
_POWER = 0.8
_USUAL = 0.2
"""How often work is taken to be wrong while nobody knows."""

_QUOTED = (Level.TESTED, Level.INDEPENDENT)


def report_verification(dataset: Dataset) -> DatasetReport:
    """Report how often judges, checks and levels were right about labelled work."""
    runs = dataset.ask("runs")
    sources = {str(row["run_id"]): str(row["source"]) for row in runs}
    opinions = _choose_labels(dataset.ask("opinions"))
    rated = [row for row in opinions if row["origin"] != _ONE_SIDED]
    levels = _tabulate_levels(dataset, rated, sources)
    tables = (
        _tabulate_opinions(rated, sources, dataset),
        levels,
        _tabulate_calibration(rated, sources),
        *_compare_levels(rated, sources),
    )
    count = len({row["run_id"] for row in opinions})
    notes = tuple(_describe(rated, opinions, sources))
    return DatasetReport("verification", "Is verification right?", count, tables, notes)


def _choose_labels(rows: Rows) -> Rows:
    """Keep, of several labels of the same work, those of the one whose word counts most."""
    best: dict[tuple[str, str, str], int] = {}
    for row in rows:
        work = (row["run_id"], row["task"], row["step"])
        best[work] = min(best.get(work, len(_TRUST)), _TRUST.index(row["origin"]))
    return [
        row for row in rows if _TRUST.index(row["origin"]) == best[row["run_id"], row["task"], row["step"]]
    ]


def _group(rows: Rows, *names: str) -> dict[tuple[str, ...], Rows]:
    groups: dict[tuple[str, ...], Rows] = defaultdict(list)
    for row in rows:
        groups[tuple(str(row[name]) for name in names)].append(row)
    return groups


def _rate(
    rows: Iterable[Mapping[str, object]], sources: Mapping[str, str], value: str, wanted: int = 1
) -> Proportion:
    return generalize(((str(row["run_id"]), row[value] == wanted) for row in rows), sources)


def _tabulate_opinions(rated: Rows, sources: Mapping[str, str], dataset: Dataset) -> ReportTable:
    """Tabulate precision and recall of every judge and check: of good work, and of finding bad work."""
    rows: list[tuple[Cell, ...]] = []
    groups = _group([row for row in rated if row["kind"] != "level"], "kind", "name")
    for (kind, name), found in sorted(
        groups.items(), key=lambda item: (_ORDER.index(item[0][0]), item[0][1])
    ):
        believed = [row for row in found if row["said"]]
        good = [row for row in found if row["good"]]
        bad = [row for row in found if not row["good"]]
        precision = _rate(believed, sources, "good")
        rows.append(
            (
                *(kind, name, precision, _rate(good, sources, "said"), _rate(bad, sources, "said", 0)),
                find_missing(precision),
            )
        )
    return make_table("opinions", rows, sql=dataset.show_sql("verification"))


def _tabulate_levels(dataset: Dataset, rated: Rows, sources: Mapping[str, str]) -> ReportTable:
    """Tabulate how often tasks of each level were wrong, and of how many history says so."""
    groups = _group([row for row in rated if row["kind"] == "level"], "name")
    done: dict[str, list[str]] = defaultdict(list)
    for task in dataset.ask("tasks"):
        if task["done"] and not task["accepted"]:
            done[str(task["level"] or "not recorded")].append(f"{task['run_id']}/{task['task']}")
    later = {
        f"{row['run_id']}/{row['task']}"
        for row in dataset.ask("opinions")
        if row["kind"] == "level" and row["origin"] == _ONE_SIDED
    }
    order = [*map(str, Level), *sorted(set(done) - set(Level))]
    rows: list[tuple[Cell, ...]] = []
    for level in order:
        if level not in done:
            continue
        wrong = _rate(groups.get((level,), []), sources, "good", 0)
        found_later = generalize(((one.rpartition("/")[0], one in later) for one in done[level]), sources)
        rows.append((level, wrong, find_missing(wrong), found_later))
    return make_table("wrong", rows)


def _tabulate_calibration(rated: Rows, sources: Mapping[str, str]) -> ReportTable:
    """Tabulate for each thing that can be said how often the work was good."""
    groups = _group([row for row in rated if row["kind"] == "judge"], "name", "result")
    order = {"PASS": 0, "PARTIAL": 1, "FAIL": 2}
    rows = [
        (name, result, _rate(found, sources, "good"))
        for (name, result), found in sorted(
            groups.items(), key=lambda item: (item[0][0], order.get(item[0][1], 3))
        )
    ]
    return make_table("calibration", rows)


def _compare_levels(rated: Rows, sources: Mapping[str, str]) -> Iterator[ReportTable]:
    """Yield the figure that everybody will quote: how often `tested` was wrong, and `independent`."""
    rates = _rate_quoted(rated, sources)
    if any(rate.n for rate in rates):
        found = subtract(*rates)
        says = conclude(found, f"`{_QUOTED[1]}` is wrong less often", f"`{_QUOTED[1]}` is wrong more often")
        yield make_table("levels_compared", [(*rates, found, says, find_missing_pair(*rates))])


def _rate_quoted(rated: Rows, sources: Mapping[str, str]) -> tuple[Proportion, Proportion]:
    one, other = (
        _rate([row for row in rated if (row["kind"], row["name"]) == ("level", level)], sources, "good", 0)
        for level in _QUOTED
    )
    return one, other


def find_missing(rate: Proportion) -> int:
    """Return about how many more labels it takes until the interval reaches 10 points to either side."""
    low, high = rate.limits()
    half = (high - low) / 2
    if rate.n and half <= _WIDTH:
        return 0
    share = rate.value if rate.interval is not None and rate.value is not None else _USUAL
    share = min(max(share, 0.05), 0.95)
    alike = rate.n / len(rate.runs) if rate.runs else 1.0  # labels of one run say less than as many of others
    needed = math.ceil((_quantile(CONFIDENCE) / _WIDTH) ** 2 * share * (1 - share) * math.sqrt(alike))
    return max(needed - rate.n, 1)


def find_missing_pair(one: Proportion, other: Proportion) -> int:
    """Return about how many more labels of both it takes to tell them apart in 80 % of cases.

    Where they seem equal, or nothing is known: to find a difference of 10 points.
    """
    first = one.value if one.interval is not None and one.value is not None else _USUAL
    second = other.value if other.interval is not None and other.value is not None else first - _WIDTH
    if abs(first - second) < _WIDTH / 2:
        second = first - _WIDTH if first > _WIDTH else first + _WIDTH
    spread = sum(rate * (1 - rate) for rate in (max(first, 0.02), max(second, 0.02)))
    reach = _quantile(CONFIDENCE) + NormalDist().inv_cdf(_POWER)
    each = math.ceil(reach**2 * spread / (first - second) ** 2)
    return max(each - one.n, 0) + max(each - other.n, 0)


def _quantile(confidence: float) -> float:
    return NormalDist().inv_cdf((1 + confidence) / 2)


def _describe(rated: Rows, opinions: Rows, sources: Mapping[str, str]) -> Iterator[str]:
    if not opinions:
        yield (
            "No work is labelled yet, so nobody knows. Label tasks chosen by chance: segue label add RUN TASK"
            f" good|bad. About {find_missing(Proportion(()))} labels per judge or level give a useful figure."
        )
        return
    by_origin = _group(opinions, "origin")
    counts = [
        f"{len({(row['run_id'], row['task'], row['step']) for row in by_origin[(name,)]})} by {name}"
        for name in _TRUST
        if (name,) in by_origin
    ]
    yield f"Labels: {', '.join(counts)}. Rates rest on those that can say both, so not on git."
    tested, independent = _rate_quoted(rated, sources)
    parts = [
        f"`{level}` was wrong in {format_cell(rate)}"
        for level, rate in zip(_QUOTED, (tested, independent), strict=True)
        if rate.n
    ]
    if parts:
        found = subtract(tested, independent)
        yield f"{'; '.join(parts)}{_say_difference(found)}"
    missing = find_missing_pair(tested, independent)
    if missing and (tested.n or independent.n) and not _is_told(subtract(tested, independent)):
        yield f"About {missing} more labels are needed to tell the two apart."


def _say_difference(found: Difference | None) -> str:
    if found is None:
        return ". Too few runs to compare them."
    if not found.is_significant:
        return f": no significant difference ({format_cell(found)})."
    return f": {format_percent(abs(found.value))} points apart ({format_cell(found)})."


def _is_told(found: Difference | None) -> bool:
    return found is not None and found.is_significant
