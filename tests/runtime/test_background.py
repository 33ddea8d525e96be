"""Runs that are resumed in a process of their own: what that one says counts, and nothing older."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from segue.domain.errors import UsageError
from segue.domain.run import Run
from segue.runtime.app import App
from segue.runtime.background import start_resume
from tests.cli.place import Place, until


@pytest.fixture
def waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Place, App, Run]:
    """A run that needs a person."""
    place = Place.make(tmp_path)
    place.script('[[on]]\nsay = "I claim to be done."\n')
    place.segue("run", "plan.md", code=3)
    for name, value in place.env.items():
        monkeypatch.setenv(name, value)
    app = App.load(place.repo)
    with app.store(read_only=True) as store:
        run = store.run(place.last_run())
    assert run is not None
    return place, app, run


def test_the_last_words_of_the_process_before_are_no_refusal(waiting: tuple[Place, App, Run]) -> None:
    place, app, run = waiting
    place.script('[[on]]\nwrite = { "f{task}" = "x" }\n')

    async def write_late() -> None:
        with (app.run_folder(run.id) / "segue.log").open("a") as log:
            log.write("segue: Task 1 needs a human: these words come late.\n")

    async def both() -> None:
        await asyncio.gather(start_resume(app, run), write_late())

    asyncio.run(both())
    until(lambda: place.json("status", run.id)["state"] == "done", "the run to end")


def test_a_process_that_refuses_is_quoted(waiting: tuple[Place, App, Run]) -> None:
    place, app, run = waiting
    (place.repo / "plan.md").unlink()
    with pytest.raises(UsageError) as refused:
        asyncio.run(start_resume(app, run))
    assert "plan" in refused.value.message
    assert refused.value.hint
