"""`segue db`: migrations for Supabase, pushes into Postgres, and runs whose database goes away."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from segue.store import connect
from tests.cli.place import DEADLINE, Place, until
from tests.patience import unhurried
from tests.store.cluster import Cluster, own_cluster

SCRIPT = """
[[on]]
say = "Working."
write = { "made.txt" = "made by {task}" }
"""


def counts(url: str) -> dict[str, int]:
    with connect(url, read_only=True) as store:
        return {
            name: store.query(f"SELECT count(*) AS n FROM orchestrator_{name}")[0]["n"]
            for name in ("runs", "steps", "events", "prompts")
        }


@pytest.mark.thorough
def test_runs_that_began_offline_are_pushed_later(place: Place, postgres: str) -> None:
    place.script(SCRIPT)
    place.segue("run", "plan.md", code=None)
    pushed = place.json("db", "push", "--to", postgres)
    assert [one["run"] for one in pushed["pushed"]] == [place.last_run()]
    assert counts(postgres) == counts(str(place.database))
    again = place.json("db", "push", "--to", postgres)
    assert (again["pushed"], again["unchanged"]) == ([], [place.last_run()])
    told = place.segue("db", "push", "--to", postgres, "--run", place.last_run()[:12])
    assert "0 of 1 runs had something new" in told.stderr
    shown = place.json("status", place.last_run(), "--database-url", postgres)
    assert shown == place.json("status", place.last_run())


def test_a_push_without_a_target_or_of_an_unknown_run_is_refused(place: Place, postgres: str) -> None:
    assert "No Postgres database is configured" in place.segue("db", "push", code=2).stderr
    told = place.segue("db", "push", "--to", postgres, "--run", "nothing", code=2)
    assert "There is no run nothing" in told.stderr
    assert not place.database.exists(), "an empty database was made"
    nowhere = "postgresql://me:topsecret@127.0.0.1:1/db"
    told = place.segue("db", "push", "--to", nowhere, code=1)
    assert "cannot be reached" in told.stderr
    assert "topsecret" not in told.stderr


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with own_cluster() as cluster:
        yield cluster


AGENT = """
import pathlib, sys, time
prompt = sys.stdin.read()
number = next(word for word in ("one", "two", "three") if f"Write {word}" in prompt)
pathlib.Path(f"{number}.txt").write_text(number)
with pathlib.Path(sys.argv[1], "launches").open("a") as file:
    file.write(number + "\\n")
deadline = time.monotonic() + 500
while number == "one" and not pathlib.Path(sys.argv[1], "go").exists() and time.monotonic() < deadline:
    time.sleep(0.01)
print(f"{number} is done")
"""
"""Waits in the first task until it may go on."""


@pytest.fixture
def waiting(place: Place) -> Place:
    return let_wait(place)


def let_wait(place: Place) -> Place:
    (place.root / "agent.py").write_text(AGENT)
    argv = f'["{sys.executable}", "{place.root}/agent.py", "{place.root}"]'
    place.config(f'agent = "command"\n[agents.command]\nargv = {argv}\n')
    return place


def launches(place: Place) -> list[str]:
    path = place.root / "launches"
    return path.read_text().split() if path.exists() else []


def spools(place: Place) -> list[Path]:
    return list((place.database.parent / "runs").glob("*.spool"))


@pytest.mark.thorough
def test_a_run_is_carried_through_although_its_database_is_away_for_a_while(
    waiting: Place, cluster: Cluster
) -> None:
    process = waiting.start("run", "plan.md", "--database-url", cluster.url)
    until(lambda: launches(waiting), "the first launch")
    cluster.stop()
    (waiting.root / "go").touch()
    until(lambda: launches(waiting) == ["one", "two", "three"], "work while the database is away")
    assert spools(waiting), "nothing was buffered"
    cluster.start()
    assert process.wait(DEADLINE) == 0
    assert spools(waiting) == []
    shown = waiting.json("status", "last", "--database-url", cluster.url)
    assert (shown["state"], [task["state"] for task in shown["tasks"]]) == ("done", ["done"] * 3)
    assert len(waiting.subjects()) == 3


@pytest.mark.thorough
def test_a_run_that_ran_out_of_patience_is_resumed_without_a_second_launch_of_what_was_done(
    waiting: Place, cluster: Cluster
) -> None:
    process = waiting.start(*("run", "plan.md", "--database-url", cluster.url), SEGUE_LIMITS__PATIENCE="6")
    until(lambda: launches(waiting), "the first launch")
    cluster.stop()
    (waiting.root / "go").touch()
    assert process.wait(DEADLINE) == 7
    told = "".join(path.read_text() for path in waiting.root.glob("out-*"))
    [spool] = spools(waiting)
    assert f"Kept: Everything since then is buffered in {spool}" in told
    assert (
        "cannot be reached"
        in waiting.segue(
            *("resume", "--database-url", cluster.url), code=7, SEGUE_LIMITS__PATIENCE="1"
        ).stderr
    )
    cluster.start()
    done = len(set(launches(waiting)))
    waiting.segue("resume", "--database-url", cluster.url)
    assert spools(waiting) == []
    assert launches(waiting)[:done] == ["one", "two", "three"][:done]
    assert len(waiting.subjects()) == 3
    assert waiting.json("status", "last", "--database-url", cluster.url)["state"] == "done"


@pytest.mark.thorough
def test_what_was_buffered_is_stored_by_a_push(tmp_path: Path, cluster: Cluster) -> None:
    def check(factor: float) -> None:
        place = let_wait(Place.make(tmp_path / str(factor)))
        process = place.start(
            "run", "plan.md", "--database-url", cluster.url, SEGUE_LIMITS__PATIENCE=str(3 * factor)
        )
        until(lambda: launches(place), "the first launch")
        cluster.stop()
        (place.root / "go").touch()
        assert process.wait(DEADLINE) == 7
        cluster.start()
        pushed = place.json("db", "push", "--database-url", cluster.url)
        [name] = pushed["replayed"]
        assert spools(place) == []
        with connect(cluster.url, read_only=True) as store:
            run = store.run(name)
            assert run is not None
            assert run.owner is None
            ended = [step.key for step in store.steps(run.id) if step.ended]
        assert "task/1/execute/1" in ended, "or the machine was too slow for that"

    unhurried(check)
