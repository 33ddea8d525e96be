"""Many runs on three machines, while one dies, one sleeps and the database is restarted."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.place import PLAN
from tests.parts.fleet.machines import ALLOW, Fleet, can_rename, make_fleet
from tests.store.cluster import Cluster, own_cluster

AGENT = (
    'agent = "command"\n[agents.command]\n'
    'argv = ["sh", "-c", "echo $PWD >> {log}; sleep 0.1; echo x > file; echo $PWD >> {log}.ended"]\n'
)
DEADLINE = 900.0


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with own_cluster() as cluster:
        yield cluster


@pytest.fixture
def crowd(tmp_path: Path, cluster: Cluster) -> Iterator[Fleet]:
    yield from make_fleet(tmp_path, cluster.url, PLAN)


@pytest.mark.thorough
@pytest.mark.parametrize("runs", [30, 1000])
def test_nothing_is_lost_or_doubled(crowd: Fleet, cluster: Cluster, runs: int) -> None:
    log = crowd.root / "launches"
    crowd.commit(segue__toml=AGENT.format(log=log))
    names = [f"host{number}" if can_rename() else "" for number in range(3)]
    dying, sleeping, steady = (crowd.machine(ALLOW + "jobs = 3\n", host=name) for name in names)
    submitted = crowd.submit(*["plan.md"] * runs, "--task", "1")
    for machine in (dying, sleeping, steady):
        machine.start()

    _until_done(crowd, runs // 6)
    dying.kill()
    _until_done(crowd, runs // 3)
    sleeping.freeze()
    _until_done(crowd, runs // 2)
    cluster.stop()
    cluster.start()
    _until_done(crowd, runs * 2 // 3)
    sleeping.thaw()
    dying.start()
    _until_done(crowd, runs)

    assert crowd.ask("SELECT id, state, note FROM orchestrator_runs WHERE state <> 'done'") == []
    assert {run for (run,) in crowd.ask("SELECT id FROM orchestrator_runs")} == set(submitted)
    launched = Counter(_run_in(line) for line in log.read_text().splitlines())
    lost = Counter(dict(crowd.ask(_LOST)))
    assert set(launched) == set(submitted)
    assert launched <= Counter(submitted) + lost, "a run is launched again only when its agent was lost"
    assert len(lost) <= 6, "only what two machines had at work"
    for run in (submitted[0], submitted[-1], *lost):
        crowd.user.segue("fetch", run)
        assert crowd.user.git("rev-list", "--count", f"main..segue/{run}").strip() == "1"


_LOST = (
    "SELECT run_id, count(*) FROM orchestrator_events WHERE type = 'agent.ended'"
    " AND data->'failure'->>'kind' = 'lost' GROUP BY 1"
)


def _run_in(folder: str) -> str:
    """The run that a folder belongs to: …/fleet/runs/RUN/repo."""
    return Path(folder).parts[-2]


def _until_done(fleet: Fleet, number: int) -> None:
    end = time.monotonic() + DEADLINE
    sql = "SELECT count(*) FROM orchestrator_runs WHERE state NOT IN ('queued', 'running', 'parked')"
    while fleet.ask(sql)[0][0] < number:
        assert time.monotonic() < end, fleet.said
        time.sleep(0.1)
