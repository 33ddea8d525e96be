"""The stet reviewer against a stet that behaves like the real one."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from segue.domain.options import OptionError, read_options
from segue.domain.verdict import Review, Severity
from segue.reviewers.stet.reviewer import StetOptions
from segue.reviewers.stet.session import Ownership
from tests.cli.place import until
from tests.conformance.reviewer import check_reviewer
from tests.fakes.stet import write_program
from tests.reviewers.place import IDENTITY, bare_environment
from tests.reviewers.stet_place import EVAL, SECRET, StetPlace, review, reviewer, with_stet
from tests.services import make_services

HIDDEN = ".review/\n"


@pytest.fixture
def place(tmp_path: Path) -> StetPlace:
    return StetPlace.make(tmp_path)


def call(place: StetPlace, *arguments: str) -> int:
    """Call stet as a person would."""
    env = bare_environment(**IDENTITY)
    return subprocess.run([place.stet, *arguments], cwd=place.repo, env=env, capture_output=True).returncode


def finish(place: StetPlace, **options: Any) -> str:
    return asyncio.run(reviewer(place, **options).finish(place.subject(place.head)))


def lines(done: Review) -> list[tuple[str, int | None]]:
    assert done.failure == ""
    return [(finding.file, finding.line) for finding in done.findings]


def has_session(place: StetPlace) -> bool:
    return (place.repo / ".review" / "session.json").exists()


def test_a_task_from_start_to_finish(place: StetPlace) -> None:
    place.play({**EVAL, "message": f"eval with {SECRET}"})
    base = place.head
    place.commit({"calc.py": "a = 1\nb = eval(s)\n"})
    done = review(place, base)
    (found,) = done.findings
    assert (found.file, found.line, found.severity, found.rule) == ("calc.py", 2, Severity.ERROR, "security")
    assert (found.message, found.suggestion) == ("eval with [redacted]", "Use ast.literal_eval.")
    assert SECRET not in done.output
    assert place.git("status", "--porcelain") == "", "the tree stays clean while the review is open"
    place.commit({"calc.py": "a = 1\nb = eval(s)  # checked\n"})
    assert lines(review(place, base, again=True)) == []
    place.commit({"calc.py": "a = 1\nb = eval(s)\n"})
    assert lines(review(place, base, again=True)) == [("calc.py", 2)], "although it was taken as addressed"
    assert finish(place) == ""
    assert not has_session(place)
    assert place.git("status", "--porcelain") == ""


def test_the_exclusion_also_reaches_a_linked_work_tree(place: StetPlace) -> None:
    place.git("worktree", "add", "--quiet", str(place.root / "linked"))
    tree = place.root / "linked"
    made = with_stet(place.stet)(make_services(tree, state_dir=place.root))
    done = asyncio.run(made.review(place.subject(place.head), again=False))
    assert done.failure == ""
    assert (tree / ".review" / "session.json").exists()
    assert HIDDEN.encode() in (place.repo / ".git" / "info" / "exclude").read_bytes()


def test_each_task_is_reviewed_from_its_own_base(place: StetPlace) -> None:
    place.play(EVAL)
    first = place.head
    second = place.commit({"one.py": "eval(s)\n"})
    assert lines(review(place, first)) == [("one.py", 1)]
    place.commit({"two.py": "eval(s)\n"})
    assert lines(review(place, second, task="2")) == [("two.py", 1)], "although nobody finished task 1"
    assert lines(review(place, first, task="3")) == [("one.py", 1), ("two.py", 1)], "no orphan in the way"


def test_what_is_gone_from_the_diff_is_no_finding(place: StetPlace) -> None:
    place.play(EVAL)
    base = place.head
    place.commit({"calc.py": "x\n" * 30 + "eval(s)\n"})
    assert lines(review(place, base)) == [("calc.py", 31)]
    place.commit({"calc.py": None})
    assert lines(review(place, base, again=True)) == []


def test_a_session_of_somebody_else_is_left_alone(place: StetPlace) -> None:
    base = place.head
    place.commit({"calc.py": "x = 1\n"})
    (place.repo / ".git" / "info" / "exclude").write_text(HIDDEN)
    assert call(place, "start", base) == 0
    before = (place.repo / ".review" / "session.json").read_bytes()
    for again in (False, True):
        done = review(place, place.head, again=again)
        assert done.needs_human
        assert "that Segue did not open" in done.failure
        assert "stet finish" in done.failure
        assert base[:12] in done.failure
    assert finish(place) == ""
    assert (place.repo / ".review" / "session.json").read_bytes() == before


@pytest.mark.parametrize(
    ("fault", "why", "again"),
    [
        ("llm_down", "Ollama unreachable at http://localhost:11434.", False),
        ("parse_failure", "parse failed (after retry)", True),
        ("unknown_output", "cannot be read", True),
    ],
)
def test_when_stet_fails_the_review_has_failed(place: StetPlace, fault: str, why: str, again: bool) -> None:
    place.play(EVAL)
    base = place.head
    place.commit({"calc.py": "eval(s)\n"})
    if again:
        review(place, base)
        place.commit({"calc.py": "eval(t)\n"})
    place.play(EVAL, **{fault: True})
    done = review(place, base, again=again)
    assert why in done.failure
    assert (done.findings, done.needs_human) == ((), False)
    place.play(EVAL)
    assert lines(review(place, base, again=again)) == [("calc.py", 1)], "another try mends it"


def test_what_stet_cannot_review_is_told(place: StetPlace) -> None:
    base = place.head
    place.commit({"calc.py": "x = 1\n"})
    (place.repo / "calc.py").write_text("x = 2\n")
    assert "working tree has uncommitted changes" in review(place, base).failure
    assert "compares with a commit" in review(place, "").failure
    (problem,) = reviewer(place, cmd="no-such-stet").check()
    assert problem.exit_code == 5
    assert "no-such-stet" in problem.message
    assert "no-such-stet" in review(place, base, cmd="no-such-stet").failure
    (place.repo / ".review").mkdir(exist_ok=True)
    (place.repo / ".review" / "session.json").write_text("{")
    done = review(place, base)
    assert "delete .review/session.json" in done.failure
    assert done.needs_human


def test_a_stet_that_a_killed_segue_left_behind_is_waited_for(place: StetPlace) -> None:
    place.play(EVAL, hang=True)
    base = place.head
    place.commit({"calc.py": "eval(s)\n"})
    calls = place.root / "calls"
    real = place.stet.rename(place.stet.with_name("real"))
    place.stet.write_text(f'#!/bin/sh\necho "$1" >> "{calls}"\nexec "{real}" "$@"\n')
    place.stet.chmod(0o755)
    (place.repo / ".git" / "info" / "exclude").write_text(HIDDEN)
    Ownership.of(place.repo, place.root / "state").claim(base)
    env = bare_environment(**IDENTITY)
    orphan = subprocess.Popen([place.stet, "start", base], cwd=place.repo, env=env, start_new_session=True)
    try:
        until(lambda: has_session(place), "the orphan's session")
        place.play(EVAL)

        async def wait_and_see() -> Review:
            looking = asyncio.ensure_future(reviewer(place).review(place.subject(base), again=False))
            await asyncio.to_thread(until, lambda: calls.read_text().count("finish") >= 2, "a second try")
            os.killpg(orphan.pid, signal.SIGKILL)
            orphan.wait()
            return await looking

        assert lines(asyncio.run(wait_and_see())) == [("calc.py", 1)]
    finally:
        with suppress(ProcessLookupError):
            os.killpg(orphan.pid, signal.SIGKILL)
        orphan.wait()


def test_a_wrapper_that_brings_its_own_stet(place: StetPlace) -> None:
    wrapper = [[sys.executable, "-c", "print('calc.py:3  WARNING  hm'); print('1 finding.')"]]
    options: dict[str, Any] = {"cmd": "no-such-stet", "commands": wrapper}
    assert reviewer(place, **options).check() == []
    assert lines(review(place, place.head, **options)) == [("calc.py", 3)]
    assert finish(place, **options) == ""


def test_stet_conforms(tmp_path: Path) -> None:
    place = StetPlace.make(tmp_path)
    place.play(EVAL)
    broken = tmp_path / "broken.json"
    broken.write_text('{"faults": {"llm_down": true}}')
    check_reviewer(
        with_stet(place.stet),
        "src/calc.py",
        "x = eval(s)\n",
        "x = eval(s)  # checked\n",
        fails=with_stet(write_program(tmp_path / "other", broken)),
    )


@pytest.mark.parametrize(
    ("given", "commands"),
    [
        ("./review.sh --fast", [["./review.sh", "--fast"]]),
        (["stet start {base}", "stet run"], [["stet", "start", "{base}"], ["stet", "run"]]),
        ([["stet", "start", "a b"], "stet run"], [["stet", "start", "a b"], ["stet", "run"]]),
        (["grep '|' \"a && b\""], [["grep", "|", "a && b"]]),
    ],
)
def test_the_seeds_ways_to_write_commands(given: Any, commands: list[list[str]]) -> None:
    assert read_options(StetOptions, {"commands": given}).commands == tuple(map(tuple, commands))


@pytest.mark.parametrize(
    "command",
    [
        "stet start && stet run",
        "stet start; stet run",
        "stet run | tee log",
        "stet run 2>&1",
        "stet start $(git rev-parse HEAD)",
        "stet start `git rev-parse HEAD`",
        "(stet run)",
        "stet start\nstet run",
        "stet run &",
    ],
)
def test_what_needs_a_shell_is_refused_with_a_hint(command: str) -> None:
    for commands in (command, [command]):
        with pytest.raises(OptionError, match="a list of commands"):
            read_options(StetOptions, {"commands": commands})


@pytest.mark.parametrize(
    "wrong", [{"commands": []}, {"commands": [[""]]}, {"commands": "stet start {ref}"}, {"finish": "later"}]
)
def test_mistakes_in_stets_options(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        read_options(StetOptions, wrong)
