"""Which run `last` means when runs were submitted to a fleet."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from segue.features.fleet.submit import Submission
from segue.runtime.app import App
from segue.runtime.find import find_run, find_unfinished
from segue.store.store import Store
from segue.system.identity import person


def git(where: Path, *arguments: str) -> str:
    who = ("-c", "user.name=T", "-c", "user.email=t@localhost")
    done = subprocess.run(["git", *who, *arguments], cwd=where, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def app(tmp_path: Path) -> App:
    repo = tmp_path / "shop"
    repo.mkdir()
    git(repo, "init", "--quiet")
    git(repo, "commit", "--quiet", "--allow-empty", "-m", "x")
    given = {"database_url": str(tmp_path / "segue.db"), "state_dir": str(tmp_path / "state")}
    return App.load(repo, command_line=given)


@pytest.fixture
def mine(app: App) -> Submission:
    """What was submitted here."""
    git(app.repo, "remote", "add", "origin", "https://me:secret@github.com/acme/shop.git")
    return Submission("plan.md", "https://github.com/acme/shop", "a" * 40, submitter=person())


@pytest.fixture
def store(app: App) -> Iterator[Store]:
    with app.store() as found:
        yield found


def send(store: Store, name: str, what: Submission) -> None:
    assert store.enqueue({name: (f"fleet/{name}", what.spec())}) == 1


def test_last_is_the_newest_that_you_submitted_from_this_repository(
    app: App, store: Store, mine: Submission
) -> None:
    send(store, "mine", mine)
    send(store, "theirs", replace(mine, submitter="ada@elsewhere"))
    send(store, "another-shop", replace(mine, url="https://github.com/acme/bakery"))
    assert find_run(store, app, "last").id == find_run(store, app, None).id == "mine"
    assert find_run(store, app, "theirs").id == "theirs"
    assert find_unfinished(store, app, None, idle=True) is None, "workers see to it"
