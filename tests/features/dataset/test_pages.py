"""Reports on the page: the figures of the command, and nothing that agents wrote runs."""

from __future__ import annotations

import html
import json
import re

from segue.domain.events import AgentText, ErrorSeen, SearchDone
from segue.features.dataset.reports.build import build_reports
from segue.features.dataset.reports.selection import Selection
from segue.store import connect
from tests.cli.place import Place
from tests.reports.dataset import busy
from tests.web.place import Served, make_run, serving

HOSTILE = "<script>alert(1)</script>\"><img src=x onerror=alert(2)>\x1b[31mred\x1b[0m\x07'--"


def test_rates_have_bars_and_runs_links(place: Place) -> None:
    busy().write(str(place.database))
    with serving(place) as served:
        shown = served.get("/gaps").text
        assert "<meter" in shown
        assert 'class="heat-' in shown
        runs = {html.unescape(found) for found in re.findall(r'href="(/runs/[^"]+)"', shown)}
        assert runs
        assert served.get(sorted(runs)[0]).status_code == 200
        with connect(str(place.database), read_only=True) as store:
            [report] = build_reports(store, ("compare",), Selection(agent="claude"))
        told = served.data("/compare.json?agent=claude")
        assert told["settings"] == json.loads(json.dumps(report.to_json()["settings"]))


def test_hostile_text_stays_text_here_too(place: Place, served: Served) -> None:
    happened = [
        AgentText(HOSTILE),
        ErrorSeen("EXIT_ERROR", HOSTILE, HOSTILE, "1"),
        SearchDone("1", HOSTILE, "agent"),
    ]
    verdict = {"result": "FAIL", "action": "RETRY", "reason": HOSTILE}
    make_run(place.database, happened, output={"verdict": verdict}, ok=False)
    shown = served.get("/gaps").text
    assert "alert(1)" in shown
    assert not re.search("<script>|<img|[\x00\x07\x1b]", shown)
