"""Makes the pictures of the page: a run of the demo that is at work, in a real browser."""

from __future__ import annotations

import json
import os
import re
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

FILES = {
    "plan.md": """# Newsletter for small shops

## Task 1: Subscribers are kept in a table
Adding one twice keeps one. A test shows it.

## Task 2: Letters that bounce
Nobody gets a letter whose address bounces.

## Task 3: Unsubscribe with one click
The link in a letter removes its reader. A test shows it.

## Task 4: The archive as static pages
A page per letter. A test shows it.

## Task 5: Who opened what, without tracking pixels
Counted by links only. A test shows it.

## Task 6: Send in the reader's own time zone
At nine in the morning, where the reader is. A test shows it.
""",
    "letters.py": "def greet(name):\n    return f'Dear {name}'\n",
    "test_letters.py": (
        "from letters import greet\n\n\ndef test_greet():\n    assert greet('Ada') == 'Dear Ada'\n"
    ),
    ".gitignore": "__pycache__/\n.pytest_cache/\n",
    "segue.toml": """agent = "scripted"
checks = [["python3", "-m", "pytest", "-q"]]
[agents.scripted]
script = "script.toml"
[limits]
launches = 20
attempts = 1
cost_usd = 1.0
""",
    "script.toml": """
[[on]]
task = "1"
say = "Subscribers are kept in a set, with a test."
usage = { input_tokens = 5100, output_tokens = 640, cost_usd = 0.034 }
[on.write]
"subscribers.py" = '''
def add(known, address):
    return known | {address.lower()}
'''
"test_subscribers.py" = '''
from subscribers import add


def test_add():
    assert add({"a@x.org"}, "A@x.org") == {"a@x.org"}
    assert add(set(), "B@x.org") == {"b@x.org"}
'''
[[on]]
task = "2"
say = '{"question": "Shall an address go after its first bounce, or after three?"}'
usage = { input_tokens = 2100, output_tokens = 90, cost_usd = 0.011 }
[[on]]
task = "3"
say = "The link removes its reader."
usage = { input_tokens = 4200, output_tokens = 380, cost_usd = 0.021 }
[on.write]
"unsubscribe.py" = '''
def remove(known, address):
    return known
'''
"test_unsubscribe.py" = '''
from unsubscribe import remove


def test_one_click():
    assert remove({"a@x.org", "b@x.org"}, "a@x.org") == {"b@x.org"}
'''
[[on]]
task = "4"
say = "A page per letter, with a test."
usage = { input_tokens = 6400, output_tokens = 710, cost_usd = 0.041 }
[on.write]
"archive.py" = '''
def page(title):
    return f"<h1>{title}</h1>"
'''
"test_archive.py" = '''
from archive import page


def test_page():
    assert page("May") == "<h1>May</h1>"
    assert page("June") == "<h1>June</h1>"
'''
[[on]]
task = "5"
say = "I look at how letters are rendered."
delay = 1200
""",
}
"""A repository in which an agent works: what it wrote is tested, asked about, refused, or under way."""


def main() -> int:
    """Start a run, serve it, and take the pictures."""
    if find_chromium() is None:
        click.echo("NO CHROMIUM: no pictures were made. `make browser` installs it.", err=True)
        return 1
    with tempfile.TemporaryDirectory(prefix="segue-") as name, open_run(Path(name)) as page:
        (PICTURES / "run.txt").write_text(read(page), encoding="utf-8")
        take(page, "run")
        page.emulate_media(color_scheme="dark")
        take(page, "run-dark")
        page.set_viewport_size(PHONE)
        take(page, "run-phone")
    return 0


def find_chromium() -> str | None:
    """Return Debian's chromium, if it is installed."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def open_run(place: Path) -> Iterator[Page]:
    """Start a run that is in the middle of its work, serve it, and open its page."""
    database = place / "segue.db"
    with working(place, database), served(place, database) as link, window(str(find_chromium())) as browser:
        page = browser.new_context(viewport=DESK, color_scheme="light").new_page()
        page.goto(link)
        page.wait_for_url("**/runs")
        page.locator("td.main a").click()
        page.wait_for_url("**/runs/*")
        page.wait_for_load_state("load")
        yield page


def read(page: Page) -> str:
    """Return what the page says above its timeline, a line each, without what differs from run to run."""
    parts = page.locator("#head, #tasks, #lanes").all_inner_texts()
    lines = re.sub(r"just now|\d+ min ago", "some time ago", "\n".join(parts)).splitlines()
    return "\n".join(filter(None, map(settle, lines))) + "\n"


def segue(*words: str) -> list[str]:
    """The command line of Segue."""
    return [sys.executable, "-m", "segue", *words]


def surroundings(place: Path) -> dict[str, str]:
    """The environment of all commands: nothing of the person who makes the pictures is seen."""
    home = place / "home"
    home.mkdir(exist_ok=True)
    known = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    known["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{known['PATH']}"
    git = {"GIT_AUTHOR_NAME": "Demo", "GIT_AUTHOR_EMAIL": "demo@localhost"}
    git |= {"GIT_COMMITTER_NAME": "Demo", "GIT_COMMITTER_EMAIL": "demo@localhost"}
    return {**known, **git, "HOME": str(home), "SEGUE_TRUST": "1"}


@contextmanager
def working(place: Path, database: Path) -> Iterator[None]:
    """A run that is in the middle of its work: tasks done, one that needs a human, one under way."""
    repo = place / "newsletter"
    repo.mkdir()
    env = surroundings(place)
    for name, text in FILES.items():
        (repo / name).write_text(text, encoding="utf-8")
    for words in (
        ["init", "--quiet", "--initial-branch=main"],
        ["add", "--all"],
        ["commit", "--quiet", "-m", "x"],
    ):
        subprocess.run(["git", *words], cwd=repo, env=env, check=True)
    words = segue("run", "plan.md", "--yes", "--quiet", "--database-url", str(database))
    process = subprocess.Popen(words, cwd=repo, env=env, stderr=subprocess.DEVNULL)
    try:
        wait_for_task(database, "task/5/execute/1", patience=600)
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
    started = subprocess.Popen(words, cwd=repo, env=surroundings(place), stdout=subprocess.PIPE, text=True)
    with started as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["link"]
        finally:
            process.terminate()


@contextmanager
def window(chromium: str) -> Iterator[Browser]:
    """Debian's chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


def take(page: Page, name: str) -> None:
    """Take one picture, and refuse one that is too large for the repository."""
    page.reload()
    path = PICTURES / f"{name}.png"
    page.screenshot(path=path)
    click.echo(f"docs/pictures/{name}.png  {path.stat().st_size / 1000:.0f} kB")
    if path.stat().st_size > LARGEST:
        raise SystemExit(f"{path} has more than {LARGEST / 1000:.0f} kB.")
