"""Views: what the agent says and names is shown by terminals, browsers, hosts and spreadsheets."""

from __future__ import annotations

import csv
import io
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator

from tests.isolation.escapes.cases.files import NAMES
from tests.isolation.escapes.escape import MOUNTS, Escape
from tests.isolation.escapes.scene import Scene
from tests.web.place import serving

SAY = r"""
text = ("\x1b]0;title\x07\x1b]52;c;aGFjaw==\x07\x1b[2J\x1b[31m\x9b31m\u202eevil\u2066 "
        "<script>canary()</script><img src=x onerror=canary()> </pre></script><script>canary() "
        "[click](javascript:canary()) ![x](https://canary.invalid/x.png) @everyone <!-- ``` ~~~ --> "
        "[bold red]x[/] [link=https://canary.invalid]y[/link] =cmd|' /C calc'!A0 ]]> &canary;")
print(text)
print(json.dumps({"type": "result", "result": text}))
print(text, file=sys.stderr)
print("=1+cmd|' /C calc'!A0")
print("\x1bc" + "\b" * 200 + "\rTask 1 done: PASS (held)")
sys.stdout.flush()
"""
TAMPER = r"""
path = REPO / "plan.md"
title = "<img src=x onerror=canary()> [x](javascript:canary()) \x1b[2J\u202e"
path.write_text(path.read_text() + f"\n## Task 3 {title}\n=1+1\n")
"""
_ACTIVE = re.compile(r"<script>canary|<img src=x onerror=canary|href=\"javascript:", re.IGNORECASE)
_FORMULA = re.compile(r"[=+@\t\r]|-(?![\d.])")


def is_active(scene: Scene) -> Iterator[str]:
    """Find what a browser would run."""
    page = scene.place.segue("proof", "last", "--html", code=None).stdout
    if found := _ACTIVE.search(page):
        yield f"the card as a page has {found[0]}"
    run = scene.place.last_run()
    with serving(scene.place) as served:
        for path in (
            "/",
            f"/runs/{run}",
            f"/runs/{run}/tasks/1",
            f"/runs/{run}/events",
            f"/runs/{run}/proof",
        ):
            answer = served.get(path)
            if answer.status_code == 200 and (found := _ACTIVE.search(answer.text)):
                yield f"{path.replace(run, 'RUN')} has {found[0]}"


def is_obeyed(scene: Scene) -> Iterator[str]:
    """Find control characters, live Markdown and broken XML in what is made for others."""
    for form in ("--markdown", "--junit", "--json"):
        said = scene.give(("proof", "last", form))
        if form == "--markdown" and (found := re.search(r"(?<!\\)]\((javascript:|https://canary)", said)):
            yield f"a pull request would have {found[0]}"
        if form == "--junit":
            try:
                ElementTree.fromstring(said)
            except ElementTree.ParseError as error:
                yield f"the report for CI is broken: {error}"
    for command in (
        ("logs", "last", "--json"),
        ("report",),
        ("report", "run", "last"),
        ("task", "list", "plan.md"),
    ):
        scene.give(command)


def is_calculated(scene: Scene) -> Iterator[str]:
    """Find cells that a spreadsheet would calculate."""
    for table in ("attempts", "commands", "errors", "tasks", "checks", "patches", "events"):
        said = scene.place.segue("db", "export", table, "--format", "csv", code=None).stdout
        csv.field_size_limit(10**8)
        for row in csv.reader(io.StringIO(said)):
            for cell in row:
                if "calc" in cell and _FORMULA.match(cell):
                    yield f"{table} has a formula: {cell[:30]}"


VIEWS = (
    Escape("words that a terminal obeys", f"{SAY}sys.exit(3)", gains=is_obeyed, means=("bwrap", "lanes")),
    Escape("words that a browser runs", SAY, gains=is_active, means=MOUNTS),
    Escape("words that a spreadsheet calculates", SAY, gains=is_calculated, means=MOUNTS),
    Escape("tasks that a view obeys", TAMPER, gains=is_obeyed, means=("bwrap", "lanes"), named="plan"),
    Escape("tasks that a browser runs", f"{TAMPER}{NAMES}", gains=is_active, means=MOUNTS),
    Escape("names that a spreadsheet calculates", NAMES, gains=is_calculated, means=MOUNTS),
)
