"""`segue forecast`, as a user sees it."""

from __future__ import annotations

from tests.cli.place import Place
from tests.parts.lab.test_forecasting import add
from tests.reports.dataset import Written


def test_a_forecast_from_own_history_only(place: Place) -> None:
    goal = "Build a todo app"
    place.script("")
    told = place.segue("forecast", goal).stdout
    assert told.startswith(
        "No forecast: 0 earlier runs of this source with scripted ended, and 3 are needed."
    )
    assert place.json("forecast", goal)["seconds"] is None
    data = Written()
    for number, steps in enumerate((1, 2, 4)):
        add(data, f"r{number}", steps, cost=float(steps))
    data.write(str(place.database))
    told = place.segue("forecast", goal, "--agent", "claude", "--model", "opus").stdout
    assert "From 3 earlier runs of this source with claude opus:\ntime  about 20.0s, between 4." in told
    assert "cost  about $2.00, between $0.4" in told
    assert place.json("forecast", goal, "--agent", "claude")["basis"] == "runs of this source"
