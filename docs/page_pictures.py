"""Makes the pictures of the page: a run of the demo that is at work, in a real browser."""

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
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click
from docs.svg import settle

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, ViewportSize

PICTURES = Path(__file__).parent / "pictures"
LARGEST = 150_000
"""Bytes of one picture."""

DESK: ViewportSize = {"width": 1200, "height": 820}
PHONE: ViewportSize = {"width": 390, "height": 844}

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
[agents.scripted]
script = "script.toml"
[limits]
launches = 12
cost_usd = 1.0
"""


def main() -> int:
    """Start a run, serve it, and take the pictures."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        click.echo("NO CHROMIUM: no pictures were made. `make browser` installs it.", err=True)
        return 1
    with tempfile.TemporaryDirectory(prefix="segue-") as name:
        place = Path(name)
        database = place / "segue.db"
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
    return {**known, **git, "HOME": str(home), "SEGUE_TRUST": "1"}


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
    words = segue("run", "plan.md", "--yes", "--quiet", "--database-url", str(database))
    process = subprocess.Popen(words, cwd=repo, env=env, stderr=subprocess.DEVNULL)
    try:
        wait_for_task(database, "task/4/execute/1", patience=120)
        yield
    finally:
        process.terminate()
        process.wait()


def wait_for_task(database: Path, key: str, patience: float = 60.0) -> None:
    """Wait until a step has begun."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        # The table is not made at once.
        with closing(sqlite3.connect(database)) as known, suppress(sqlite3.OperationalError):
            if known.execute("SELECT 1 FROM orchestrator_steps WHERE key = ?", [key]).fetchone():
                return
        time.sleep(0.2)
    raise SystemExit(f"The run has not reached {key} within {patience:g} s.")


@contextmanager
def served(place: Path, database: Path) -> Iterator[str]:
    """The page; gives the link into it."""
    words = segue("serve", "--port", "0", "--json", "--database-url", str(database))
    repo = place / "newsletter"
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
    """Take all pictures, and write down what the run's page says."""
    url = link.partition("/enter")[0]
    context = browser.new_context(viewport=DESK, color_scheme="light")
    page = context.new_page()
    page.goto(link)
    page.wait_for_url("**/runs")
    runs = page.evaluate("fetch('/runs.json').then(answer => answer.json())")
    live = runs["data"]["runs"][0]["id"]
    take(page, f"{url}/runs/{live}", "run")
    said = [settle(line) for line in page.locator("main").inner_text().splitlines()]
    (PICTURES / "run.txt").write_text("\n".join(filter(None, said)) + "\n", encoding="utf-8")
    page.emulate_media(color_scheme="dark")
    take(page, f"{url}/runs/{live}", "run-dark")
    take(page, f"{url}/runs/{live}", "run-phone", PHONE)


def take(page: Page, address: str, name: str, size: ViewportSize | None = None) -> None:
    """Take one picture, and refuse one that is too large for the repository."""
    page.set_viewport_size(size or DESK)
    page.goto(address)
    page.wait_for_load_state("load")
    path = PICTURES / f"{name}.png"
    page.screenshot(path=path)
    click.echo(f"docs/pictures/{name}.png  {path.stat().st_size / 1000:.0f} kB")
    if path.stat().st_size > LARGEST:
        raise SystemExit(f"{path} has more than {LARGEST / 1000:.0f} kB.")
