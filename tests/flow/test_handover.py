"""A task is told what earlier ones really did: an agent that reads it need not be sent back."""

from __future__ import annotations

import re
from pathlib import Path

from segue.domain.job import Job
from segue.domain.outcome import Outcome
from segue.flow.context import Policy
from tests.flow.loop import FunctionAgent, ListSource, Loop

_CHECK = ("sh", "-c", "test ! -e total.py || python3 total.py")


def behave(job: Job) -> Outcome:
    """Name a function otherwise than the plan says; later, call what the prompt says that there is."""
    here, told = job.workspace, job.prompt.text
    match job.labels["task"]:
        case "1":
            (here / "shop.py").write_text("def price_in_cents(book: str) -> int:\n    return 900\n")
            return Outcome("Done.\n\nI called it price_in_cents, because prices are whole cents.")
        case "2":
            (here / "notes.txt").write_text("Nothing about prices.\n")
            return Outcome("Done.")
    name = re.search(r"def (price\w*)\(", told)
    called = name[1] if name else "get_price"  # what the plan calls it
    (here / "total.py").write_text(f"from shop import {called}\nassert {called}('a') == 900\n")
    return Outcome("Done.")


def _run(folder: Path, size: int) -> tuple[Loop, list[Job]]:
    """Run the three tasks; return the launches of the last one."""
    agent = FunctionAgent("worker", behave)
    policy = Policy(handover_bytes=size, resolutions=0)
    loop = Loop(folder, ListSource("1", "2", "3"), [agent], checks=(_CHECK,), policy=policy)
    loop.session()
    return loop, [job for job in agent.jobs if job.labels["task"] == "3"]


def test_the_third_task_uses_the_name_that_the_first_one_chose(tmp_path: Path) -> None:
    loop, [job] = _run(tmp_path, 4096)
    assert "def price_in_cents(book: str) -> int" in job.prompt.text
    assert "I called it price_in_cents" in job.prompt.text
    with loop.store() as store:
        [end] = [step for step in store.steps(loop.run_id) if step.key == "task/1/end"]
    assert end.output["note"]["names"] == "shop.py:\n  def price_in_cents(book: str) -> int"
