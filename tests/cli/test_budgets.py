"""What is left of the caps, as `segue status` shows it."""

from __future__ import annotations

from pathlib import Path

from tests.cli.place import Place

_CAPS = """
[limits]
cost_usd = 5
[limits.task]
cost_usd = 0.2
tokens = 1000
[limits.day]
cost_usd = 2
"""


def test_what_is_left_is_shown_of_a_run_its_tasks_and_the_day(tmp_path: Path) -> None:
    place = Place.make(tmp_path)
    used = "usage = { input_tokens = 90, output_tokens = 10, cost_usd = 0.25 }\n"
    place.script("[[on]]\nwrite = { 'f{task}' = 'x' }\n" + used)
    place.config((place.root / "segue.toml").read_text() + _CAPS)
    over = "$0.05 more than the cap of $0.20 per task (limits.task.cost_usd)"
    done = place.segue("run", "plan.md")
    assert "Over budget: tasks 1, 2, 3." in " ".join(done.stdout.split())
    assert f"used {over}" in " ".join(done.stderr.split())
    around = "today $1.25 of $2.00."
    assert f"Left: this run $4.25 of $5.00; {around}" in place.segue("status", "last").stdout
    assert (
        f"; task 2 900 of 1,000 tokens, $0.00 of $0.20; {around}" in place.segue("status", "last", "2").stdout
    )
    assert f"Task 2 used {over}." in place.segue("status", "last", "2").stdout
    assert over in " ".join(place.segue("proof", "last", "2").stdout.split())
    left = place.json("status", "last", "2")["left"]
    assert [(one["scope"], one["task"], round(one["left"], 2)) for one in left] == [
        ("run", None, 4.25),
        ("task", "2", 900),
        ("task", "2", 0),
        ("day", None, 1.25),
    ]
