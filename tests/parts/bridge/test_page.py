"""The pages of the bridge, and how the core's pages lead there."""

from __future__ import annotations

import html
from pathlib import Path

import pytest

from tests.cli.place import Place
from tests.web.accessibility import DESK, visit
from tests.web.browser import looking, needs_chromium
from tests.web.place import serving


@pytest.mark.thorough
@needs_chromium
def test_a_conversation_is_shown_with_what_came_of_it(place: Place, tmp_path: Path) -> None:
    place.segue("demo", "bridge", "--dir", str(tmp_path / "demo"))
    database = tmp_path / "demo" / "bridge" / "state" / "segue.db"
    with serving(place, "--database-url", str(database)) as served:
        [one] = served.data("/bridge.json")["conversations"]
        assert one["commands"] == {"subagents": 2, "actions": 1, "reminders": 1}
        told = served.data(f"/bridge/{one['id']}.json")
        statuses = {name: [c["status"] for c in found] for name, found in told["done"].items()}
        assert statuses == {"subagents": ["done", "refused"], "actions": ["done"], "reminders": ["sent"]}
        page = html.unescape(served.get(f"/bridge/{one['id']}").text)
        for text in ("is not on the allow-list", "saved/home", "Time to look at the health check"):
            assert text in page
        assert served.get("/bridge/nothing").status_code == 404
        found = served.data(f"/palette.json?q={one['id']}")["found"]
        assert [row["href"] for row in found if row["kind"] == "run"] == [f"/bridge/{one['id']}"]
        assert f'href="/bridge/{one["id"]}"' in served.get("/runs?kind=conversation").text
        with looking(served, viewport=DESK) as window:
            problems = visit(window, served.url, ("/bridge", f"/bridge/{one['id']}"))
        assert problems == [], "\n".join(problems)


@pytest.mark.thorough
def test_an_empty_page_says_what_to_do(place: Place) -> None:
    with serving(place) as served:
        assert "segue demo bridge" in served.get("/bridge").text
