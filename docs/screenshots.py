"""Makes the pictures of the page in docs/pictures/ from the demo: `make screenshots`."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, ViewportSize

PICTURES = Path(__file__).parent / "pictures"
LARGEST = 150_000
"""Bytes of one picture."""

DESK: ViewportSize = {"width": 1200, "height": 820}
PHONE: ViewportSize = {"width": 390, "height": 844}
PARTS = ("story", "feature", "build", "bridge")
TABLES = ("orchestrator_runs", "orchestrator_steps", "orchestrator_events", "orchestrator_prompts")

PLAN = """# Newsletter

## Task 1
Keep subscribers in a table.

## Task 2
Send a confirmation before the first letter.

## Task 3
Unsubscribe with one click.

## Task 4
Show who opened what, without tracking pixels.

## Task 5
Write the archive as static pages.
"""
SCRIPT = """
[[on]]
task = "2"
say = "All mails are confirmed now."
usage = { input_tokens = 4200, output_tokens = 380, cost_usd = 0.021 }
[[on]]
task = "4"
say = "I look at how letters are rendered."
delay = 300
[[on]]
say = "Done, with a test."
delay = 0.4
write = { "part{task}.py" = "READY = True\\n" }
usage = { input_tokens = 5100, output_tokens = 640, cost_usd = 0.034 }
"""
SETTINGS = """agent = "scripted"
continue_with_remaining_tasks = true
[agents.scripted]
script = "script.toml"
[limits]
launches = 12
cost_usd = 1.0
"""


def main() -> int:
    """Make the demo, serve it, and take the pictures."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        click.echo("NO CHROMIUM: no pictures were made. `make browser` installs it.", err=True)
        return 1
    with tempfile.TemporaryDirectory(prefix="segue-") as name:
        place = Path(name)
        database = demo(place)
        with working(place, database), served(place, database) as link, window(chromium) as browser:
            shoot(browser, link)
    return 0


def segue(*words: str) -> list[str]:
    """The command line of Segue."""
    return [sys.executable, "-m", "segue", *words]


def surroundings(place: Path) -> dict[str, str]:
    """The environment of all commands: nothing of the person who makes the pictures is seen."""
    home = place / "home"
    home.mkdir(exist_ok=True)
    known = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    git = {"GIT_AUTHOR_NAME": "Demo", "GIT_AUTHOR_EMAIL": "demo@localhost"}
    git |= {"GIT_COMMITTER_NAME": "Demo", "GIT_COMMITTER_EMAIL": "demo@localhost"}
    return {**known, **git, "HOME": str(home), "XDG_DATA_HOME": str(home / "data")}


def demo(place: Path) -> Path:
    """Run all parts of the demo; their databases become one."""
    click.echo("Running the demo ...")
    words = segue("demo", "--all", "--dir", str(place / "demo"))
    subprocess.run(words, env=surroundings(place), check=True, capture_output=True)
    databases = [place / "demo" / part / "state" / "segue.db" for part in PARTS]
    with closing(sqlite3.connect(databases[0])) as whole:
        for other in databases[1:]:
            whole.execute("ATTACH ? AS other", [str(other)])
            for table in TABLES:
                whole.execute(f"INSERT OR IGNORE INTO {table} SELECT * FROM other.{table}")  # noqa: S608
            whole.commit()
            whole.execute("DETACH other")
    return databases[0]


@contextmanager
def working(place: Path, database: Path) -> Iterator[None]:
    """A run that is in the middle of its work: tasks done, one that needs a human, one under way."""
    repo = place / "newsletter"
    repo.mkdir()
    env = surroundings(place)
    for name, text in (("plan.md", PLAN), ("script.toml", SCRIPT), ("segue.toml", SETTINGS)):
        (repo / name).write_text(text)
    for words in (
        ["init", "--quiet", "--initial-branch=main"],
        ["add", "--all"],
        ["commit", "--quiet", "-m", "x"],
    ):
        subprocess.run(["git", *words], cwd=repo, env=env, check=True)
    words = segue("run", "plan.md", "--quiet", "--database-url", str(database))
    process = subprocess.Popen(words, cwd=repo, env=env, stderr=subprocess.DEVNULL)
    try:
        wait_for_task(database, "task/4/execute/1")
        yield
    finally:
        process.terminate()
        process.wait()


def wait_for_task(database: Path, key: str, patience: float = 60.0) -> None:
    """Wait until a step has begun."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        with closing(sqlite3.connect(database)) as known:
            if known.execute("SELECT 1 FROM orchestrator_steps WHERE key = ?", [key]).fetchone():
                return
        time.sleep(0.2)
    raise SystemExit(f"The run has not reached {key} within {patience:g} s.")


@contextmanager
def served(place: Path, database: Path) -> Iterator[str]:
    """The page; gives the link into it."""
    words = segue("serve", "--port", "0", "--json", "--database-url", str(database))
    repo = place / "demo" / "story" / "repo"
    process = subprocess.Popen(words, cwd=repo, env=surroundings(place), stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["link"]
    finally:
        process.terminate()
        process.wait()


@contextmanager
def window(chromium: str) -> Iterator[Browser]:
    """Debian's chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


def shoot(browser: Browser, link: str) -> None:
    """Take all pictures."""
    PICTURES.mkdir(exist_ok=True)
    url = link.partition("/enter")[0]
    context = browser.new_context(viewport=DESK, color_scheme="light")
    page = context.new_page()
    page.goto(link)
    page.wait_for_url("**/runs")
    runs = {run["kind"]: run for run in reversed(read_json(page, f"{url}/runs.json")["runs"])}
    live = read_json(page, f"{url}/runs.json")["runs"][0]["id"]
    build, feature = f"{url}/runs/{runs['prompt']['id']}", f"{url}/runs/{runs['speckit']['id']}"
    take(page, f"{url}/runs", "runs", height=600)
    take(page, build, "run", height=1000)
    take(
        page,
        failed_verification(page, feature),
        "verification",
        height=760,
        unfold="summary:has-text('Diff')",
    )
    take(page, f"{url}/tasks?run={live}", "tasks", height=580)
    take(page, f"{url}/gaps", "gaps", height=900)
    take(page, f"{url}/recovery", "recovery", height=680, hover=".tip")
    take(page, f"{url}/bridge/{runs['bridge']['id']}", "bridge", height=860)
    page.emulate_media(color_scheme="dark")
    take(page, f"{url}/runs/{live}", "live-dark", height=1000)
    take(page, f"{url}/events?q=usage+limit", "events-dark", height=420)
    take(page, f"{url}/runs/{live}", "phone-dark", size=PHONE)
    page.emulate_media(color_scheme="light")
    take(page, f"{url}/gaps", "phone", size=PHONE)


def read_json(page: Page, address: str) -> Any:
    """What a twin says."""
    return page.request.get(address).json()["data"]


def failed_verification(page: Page, run: str) -> str:
    """The address of the step in which the judge said no."""
    steps = [step for task in read_json(page, f"{run}.json")["tasks"] for step in task["steps"]]
    return f"{run}/steps/" + str(
        next(s["seq"] for s in steps if s["phase"] == "verify" and s["result"] == "FAIL")
    )


def take(
    page: Page,
    address: str,
    name: str,
    height: int = 820,
    size: ViewportSize | None = None,
    hover: str = "",
    unfold: str = "",
) -> None:
    """Take one picture, and refuse one that is too large for the repository."""
    page.set_viewport_size(size or {"width": DESK["width"], "height": height})
    page.goto(address)
    page.wait_for_load_state("load")
    if unfold:
        page.locator(unfold).first.click()
    if hover:
        page.locator(hover).first.hover()
    path = PICTURES / f"{name}.png"
    page.screenshot(path=path)
    click.echo(f"{path.relative_to(PICTURES.parent.parent)}  {path.stat().st_size / 1000:.0f} kB")
    if path.stat().st_size > LARGEST:
        raise SystemExit(f"{path} has more than {LARGEST / 1000:.0f} kB.")


if __name__ == "__main__":
    raise SystemExit(main())
