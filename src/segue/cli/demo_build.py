"""The third part of the demo: one prompt becomes a plan, a project and a report."""

from __future__ import annotations

import time
from pathlib import Path

from segue.cli import drive
from segue.cli.output import Output, program
from segue.runtime.wiring import App
from segue.sim import throwaway

_GOAL = "Build a Supabase todo app with auth"


async def show(folder: Path | None, output: Output) -> int:
    """Run it, then write the report page and say what happened."""
    place = await throwaway.with_build(folder)
    app = App.load(
        place.repo,
        command_line={
            "agent": "scripted",
            "state_dir": str(place.state),
            "database_url": str(place.state / "segue.db"),
            "agents": {"scripted": {"script": str(place.folder / "build.toml")}},
        },
    )
    output.note(f'3. One prompt, "{_GOAL}", the simulated agent in every role: {place.repo}\n')
    code = await drive.start(app, _GOAL, (), None, output, detach=False, verbose=False)
    if code == 0:
        report = place.folder / "report.html"
        report.write_text(_page(app), encoding="utf-8")
        output.note(_SAID.format(segue=program(), repo=place.repo, state=place.state, report=report))
    return code


def _page(app: App) -> str:
    from segue.reports.build import REPORTS, build_reports, build_run_report
    from segue.reports.html_page import render_html
    from segue.reports.selection import Selection

    with app.store(read_only=True) as store:
        timeline = build_run_report(store, store.runs(limit=1)[0].id)
        asked = build_reports(store, tuple(REPORTS), Selection())
    reports = [timeline, *asked] if timeline else asked
    return render_html(reports, _GOAL, f"Made by segue demo on {time.strftime('%Y-%m-%d %H:%M')}.")


_SAID = """
What happened: the agent planned four steps. The second forgot who may see what: the check that tries row
level security out (where a Postgres is at hand) and the judge noticed, a search brought what the
documentation says, and the step passed. The third went another way than planned, so the rest of the plan
was made anew.

  Repository   {repo}    (git log shows what each step changed)
  Report       {report}    (open it in a browser)
  Look again   SEGUE_STATE_DIR={state} {segue} logs
"""
