"""Where a publication comes from: versions, settings, arms, trials, seeds, dates and models of every run."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from segue import __version__
from segue.domain.events import AgentEnded, AgentRaw, AgentRecorded, Event, RunResumed, RunStarted
from segue.domain.run import Run

if TYPE_CHECKING:
    from segue.parts.lab.dataset.publish import Publication
    from segue.store.store import Store

PROVENANCE = "provenance.json"
_VERSIONS = (("claude_code_version",), ("agent", "version"))
"""Where programs say their version in the first lines they print: Claude Code, agents over ACP."""
_MOST_LINES = 50


def describe_provenance(
    store: Store, runs: Sequence[Run], point: Mapping[str, int], made: Publication
) -> dict[str, Any]:
    """Return what a reader has to know to make the same dataset again, or to doubt it."""
    models: dict[str, set[str]] = defaultdict(set)
    for row in store.query(
        "SELECT DISTINCT run_id, coalesce(model_reported, model) AS model FROM segue_attempts"
    ):
        if row["model"]:
            models[row["run_id"]].add(str(row["model"]))
    order: dict[tuple[str, str, str], int] = defaultdict(int)
    described = []
    for run in sorted(runs, key=lambda one: (one.created, one.id)):
        trial = run.spec.trial
        number = None
        if trial is not None:
            cell = (trial.experiment, trial.arm or run.spec.agent, trial.prompt or run.spec.source)
            order[cell] += 1
            number = order[cell]
        described.append(_describe_run(store, run, point.get(run.id, 0), number, sorted(models[run.id])))
    return {
        "name": made.name,
        "licence": made.licence,
        "written_at": _moment(int(time.time() * 1000)),
        "written_by": f"Segue {__version__}",
        "runs": described,
        "left_out": made.left_out,
    }


def _describe_run(store: Store, run: Run, last: int, number: int | None, models: list[str]) -> dict[str, Any]:
    seeds = store.query(
        "SELECT output->>'seed' AS seed FROM orchestrator_steps WHERE run_id = ? AND phase = 'choice'",
        [run.id],
    )
    versions = sorted(set(_list_segue(store, run.id)))
    return {
        "run_id": run.id,
        "last_event": last,
        "state": str(run.state),
        "segue": versions or "not recorded",
        "agents": read_versions(store, run.id),
        "models": models,
        "flow": run.spec.flow,
        "phases": list(run.spec.phases),
        "settings": run.spec.settings,
        "trial": msgspec.to_builtins(trial) | {"number": number} if (trial := run.spec.trial) else None,
        "seeds": [row["seed"] for row in seeds if row["seed"]],
        "began": _moment(run.created),
        "written_last": _moment(run.updated),
    }


def _list_segue(store: Store, run: str) -> Iterator[str]:
    for seen in store.events(run, kinds=(RunStarted, RunResumed)):
        if isinstance(seen.event, RunStarted | RunResumed) and seen.event.segue:
            yield seen.event.segue


def read_versions(store: Store, run: str) -> dict[str, str]:
    """Return the version of each agent of a run, as its program reports it, or as it was when recorded."""
    agents = {
        row["step"]: str(row["agent"])
        for row in store.query(
            "SELECT step, agent FROM segue_attempts WHERE run_id = ? AND agent <> ''", [run]
        )
    }
    found: dict[str, str] = dict.fromkeys(agents.values(), "not reported")
    looked: dict[str, int] = defaultdict(int)
    for seen in store.events(run, kinds=(AgentRaw, AgentRecorded, AgentEnded)):
        if all(version != "not reported" or looked[name] >= _MOST_LINES for name, version in found.items()):
            break
        agent = agents.get(seen.step or "")
        if agent is None or found[agent] != "not reported" or looked[agent] >= _MOST_LINES:
            continue
        looked[agent] += isinstance(seen.event, AgentRaw)
        version = _read_version(seen.event)
        if version:
            found[agent] = version
    return found


def _read_version(event: Event) -> str:
    if isinstance(event, AgentRecorded):
        return event.version
    if isinstance(event, AgentEnded):
        return str(event.facts.get("version", ""))
    if not isinstance(event, AgentRaw):
        return ""
    for path in _VERSIONS:
        found = event.line
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        if isinstance(found, str) and found:
            return found
    return ""


def _moment(ms: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ms / 1000))
