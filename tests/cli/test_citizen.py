"""What Spec Kit leaves to people: open checklists before the first task, and hooks of extensions."""

from __future__ import annotations

import os
import pty
import subprocess

import pytest

from tests.cli.place import Place
from tests.sources.features import example

FEATURE = "specs/001-lending"


@pytest.fixture
def lending(place: Place) -> Place:
    example(place.repo)
    place.config('agent = "scripted"\nflow = "execute"\n')
    return place


def commit(place: Place) -> None:
    place.git("add", "--all")
    place.git("commit", "--quiet", "-m", "feature")


def run(place: Place, *arguments: str, code: int = 0) -> str:
    return place.segue("run", FEATURE, "--task", "T001", *arguments, code=code).stderr


def test_hooks_of_extensions_are_named_and_left_to_people(lending: Place) -> None:
    hook = "{extension: git, command: speckit.git.commit, optional: false}"
    text = f"hooks:\n  before_implement:\n  - {hook}\n  after_implement: []\n"
    (lending.repo / ".specify" / "extensions.yml").write_text(text)
    commit(lending)
    assert "left to you: speckit.git.commit (before, mandatory)." in " ".join(run(lending).split())


def open_item(place: Place) -> None:
    path = place.repo / FEATURE / "checklists" / "ux.md"
    path.write_text("# UX\n\n- [x] CHK001 Colours\n- [ ] CHK002 Is the empty state described?\n")
    commit(place)


def test_open_checklists_are_named_and_must_be_waved_through(lending: Place) -> None:
    open_item(lending)
    said = run(lending, code=2)
    assert "ux.md has 1 unchecked of 2 items (CHK002 Is the empty state described?)" in said
    assert "requirements.md" not in said
    assert "--ignore-checklists" in said
    before = (lending.repo / FEATURE / "checklists" / "ux.md").read_bytes()
    run(lending, "--ignore-checklists")
    assert (lending.repo / FEATURE / "checklists" / "ux.md").read_bytes() == before


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 2)])
def test_on_a_terminal_people_are_asked(lending: Place, answer: str, code: int) -> None:
    open_item(lending)
    ours, theirs = pty.openpty()
    os.write(ours, f"{answer}\n".encode())
    argv = lending.command("run", FEATURE, "--task", "T001")
    env = {**lending.env, "TERM": "xterm"}
    process = subprocess.Popen(argv, cwd=lending.repo, env=env, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    said = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # the other side is closed
            break
        said += part
    assert process.wait(lending.patience) == code
    assert b"Start anyway? [y/N]" in said
