"""The stet reviewer against a stet that behaves like the real one."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from segue.domain.options import OptionError, read_options
from segue.domain.verdict import DismissReason, Finding, Review, Severity
from segue.parts.conformance.reviewer import check_reviewer
from segue.parts.stet.reviewer import StetOptions, StetReviewer
from segue.parts.stet.session import Ownership
from segue.ports import Reviewer
from segue.reviewers.command import CommandReviewer
from segue.reviewers.options import CommandReviewOptions
from segue.system.services import Services
from tests.cli.place import until
from tests.parts.stet.place import EVAL, StetPlace
from tests.reviewers.place import IDENTITY, bare_environment
from tests.services import make_services

SECRET = "sk-not-for-your-eyes-0123456789"
TODO = {"pattern": "TODO", "severity": "info", "category": "style", "message": "an open end"}


@pytest.fixture
def place(tmp_path: Path) -> StetPlace:
    return StetPlace.make(tmp_path)


def reviewer(place: StetPlace, **options: Any) -> StetReviewer:
    """A new object, as after a restart."""
    env = {"SEGUE_SIM_STET": str(place.script), **options.pop("env", {})}
    chosen = read_options(StetOptions, {"cmd": str(place.stet), "env": env, **options})
    return StetReviewer(chosen, make_services(place.repo, state_dir=place.root / "state", secrets=[SECRET]))


def review(place: StetPlace, base: str, again: bool = False, task: str = "1", **options: Any) -> Review:
    return asyncio.run(reviewer(place, **options).review(place.subject(base, task), again))


def finish(place: StetPlace, task: str = "1", **options: Any) -> str:
    return asyncio.run(reviewer(place, **options).finish(place.subject(place.head, task)))


def lines(done: Review) -> list[tuple[str, int | None]]:
    assert done.failure == ""
    return [(finding.file, finding.line) for finding in done.findings]


def has_session(place: StetPlace) -> bool:
    return (place.repo / ".review" / "session.json").exists()


def test_a_task_from_start_to_finish(place: StetPlace) -> None:
    place.play(EVAL)
    base = place.head
    place.commit({"calc.py": "a = 1\nb = eval(s)\n"})
    (found,) = review(place, base).findings
    assert len(found.id) == 64
    assert (found.file, found.line, found.severity, found.rule) == ("calc.py", 2, Severity.ERROR, "security")
    assert (found.message, found.suggestion) == ("eval on <input>", "Use ast.literal_eval.")
    assert place.git("status", "--porcelain") == "", "the tree stays clean while the review is open"
    place.commit({"calc.py": "a = 1\nb = eval(s)  # checked\n"})
    assert lines(review(place, base, again=True)) == []
    assert finish(place) == ""
    assert not has_session(place)
    assert place.git("status", "--porcelain") == ""


@pytest.mark.thorough
def test_the_exclusion_is_written_once_and_keeps_what_was_there(place: StetPlace) -> None:
    exclude = place.repo / ".git" / "info" / "exclude"
    exclude.write_bytes(b"*.log")
    for _ in range(2):
        review(place, place.head)
    assert exclude.read_bytes() == b"*.log\n.review/\n"
    exclude.write_bytes(b"/.review\r\n")
    review(place, place.head)
    assert exclude.read_bytes() == b"/.review\r\n"


def test_the_exclusion_also_reaches_a_linked_work_tree(place: StetPlace) -> None:
    place.git("worktree", "add", "--quiet", str(place.root / "linked"))
    linked = StetPlace(place.root)
    subject = linked.subject(place.head)
    options = read_options(
        StetOptions, {"cmd": str(place.stet), "env": {"SEGUE_SIM_STET": str(place.script)}}
    )
    tree = place.root / "linked"
    done = asyncio.run(
        StetReviewer(options, make_services(tree, state_dir=place.root)).review(subject, again=False)
    )
    assert done.failure == ""
    assert (tree / ".review" / "session.json").exists()
    assert b".review/" in (place.repo / ".git" / "info" / "exclude").read_bytes()


@pytest.mark.thorough
def test_each_task_is_reviewed_from_its_own_base(place: StetPlace) -> None:
    place.play(EVAL)
    first = place.head
    second = place.commit({"one.py": "eval(s)\n"})
    assert lines(review(place, first)) == [("one.py", 1)]
    place.commit({"two.py": "eval(s)\n"})
    assert lines(review(place, second, task="2")) == [("two.py", 1)], "although nobody finished task 1"
    assert lines(review(place, first, task="3")) == [("one.py", 1), ("two.py", 1)], "no orphan in the way"


@pytest.mark.thorough
def test_an_interrupted_review_is_simply_done_again(place: StetPlace) -> None:
    place.play(EVAL, parse_failure=["start"])
    base = place.head
    place.commit({"calc.py": "eval(s)\n"})
    assert "Review failed for calc.py." in review(place, base).failure
    place.play(EVAL)
    assert lines(review(place, base)) == [("calc.py", 1)]


@pytest.mark.thorough
def test_a_partial_fix_converges_although_run_skips_the_hunk(place: StetPlace) -> None:
    place.play(EVAL, TODO)
    base = place.head
    place.commit({"calc.py": "a = eval(s)\nb = eval(t)\n"})
    assert len(review(place, base).findings) == 2
    place.commit({"calc.py": "a = 1\nb = eval(t)\n"})
    assert lines(review(place, base, again=True)) == [("calc.py", 2)]
    place.commit({"calc.py": "a = 1\nb = 2  # TODO\n"})
    assert lines(review(place, base, again=True)) == [("calc.py", 2)], "a new finding in a skipped hunk"
    place.commit({"calc.py": "a = 1\nb = 2\n"})
    assert lines(review(place, base, again=True)) == []


@pytest.mark.quick("fix1")
@pytest.mark.parametrize("fix", [{"calc.py": None}, {"calc.py": "a = 1\n"}, {"calc.py": "x\n" * 30}])
def test_what_is_gone_from_the_diff_is_no_finding(place: StetPlace, fix: dict[str, str | None]) -> None:
    place.play(EVAL)
    base = place.commit({"calc.py": "x\n" * 30}) if fix["calc.py"] == "x\n" * 30 else place.head
    place.commit({"calc.py": "x\n" * 30 + "eval(s)\n"})
    assert lines(review(place, base)) == [("calc.py", 31)]
    place.commit(fix)
    assert lines(review(place, base, again=True)) == []


@pytest.mark.thorough
def test_what_is_still_wrong_is_reported_once(place: StetPlace) -> None:
    place.play(EVAL)
    base = place.head
    place.commit({"calc.py": "a = 1\nb = eval(s)\n"})
    first = review(place, base)
    place.commit({"calc.py": "a = 2\nb = eval(s)\n"})
    assert place.call("run", "--json").stdout.count('"id"') == 2, "stet itself lists it twice"
    assert review(place, base, again=True).findings == first.findings


def test_a_session_of_somebody_else_is_left_alone(place: StetPlace) -> None:
    base = place.head
    place.commit({"calc.py": "x = 1\n"})
    (place.repo / ".git" / "info" / "exclude").write_text(".review/\n")
    assert place.call("start", base).returncode == 0
    before = (place.repo / ".review" / "session.json").read_bytes()
    for again in (False, True):
        done = review(place, place.head, again=again)
        assert done.needs_human
        assert "that Segue did not open" in done.failure
        assert "stet finish" in done.failure
        assert base[:12] in done.failure
    assert finish(place) == ""
    assert (place.repo / ".review" / "session.json").read_bytes() == before


@pytest.mark.thorough
def test_a_session_that_replaced_ours_is_somebody_elses(place: StetPlace) -> None:
    base = place.head
    middle = place.commit({"calc.py": "x = 1\n"})
    place.commit({"calc.py": "x = 2\n"})
    assert review(place, base).failure == ""
    assert place.call("start", middle).returncode == 0
    assert review(place, base, again=True).needs_human


@pytest.mark.thorough
def test_our_session_that_somebody_finished_is_opened_again(place: StetPlace) -> None:
    place.play(EVAL)
    base = place.head
    place.commit({"calc.py": "eval(s)\n"})
    review(place, base)
    assert place.call("finish").returncode == 0
    assert lines(review(place, base, again=True)) == [("calc.py", 1)]


@pytest.mark.thorough
@pytest.mark.parametrize("old", [True, "human"])
def test_early_builds_without_the_json_flag(place: StetPlace, old: bool | str) -> None:
    place.play(EVAL, no_json_flag=old)
    base = place.head
    place.commit({"calc.py": "eval(s)\n"})
    assert lines(review(place, base)) == [("calc.py", 1)]
    place.commit({"calc.py": "eval(s)  # checked\n"})
    assert lines(review(place, base, again=True)) == []


@pytest.mark.quick("False-bad_request-LLM bad request")
@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("llm_down", "Ollama unreachable at http://localhost:11434."),
        ("bad_request", "LLM bad request"),
        ("parse_failure", "parse failed (after retry)"),
        ("unknown_output", "cannot be read"),
    ],
)
@pytest.mark.parametrize("again", [False, True])
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


def test_a_dirty_tree_is_told_in_stets_words(place: StetPlace) -> None:
    base = place.head
    place.commit({"calc.py": "x = 1\n"})
    (place.repo / "calc.py").write_text("x = 2\n")
    assert "working tree has uncommitted changes" in review(place, base).failure


@pytest.mark.thorough
def test_a_corrupt_session_needs_a_person(place: StetPlace) -> None:
    base = place.head
    place.commit({"calc.py": "x = 1\n"})
    review(place, base)
    (place.repo / ".review" / "session.json").write_text("{")
    done = review(place, base, again=True)
    assert done.needs_human
    assert "Session file is invalid or corrupted." in done.failure
    assert "delete .review/session.json" in done.failure
    assert "corrupted" in finish(place)


@pytest.mark.thorough
def test_a_hanging_review_is_killed_and_can_be_repeated(place: StetPlace) -> None:
    place.play(EVAL, hang=True)
    base = place.head
    place.commit({"calc.py": "eval(s)\n"})
    done = review(place, base, timeout=3)
    assert "did not finish within 3 s" in done.failure
    place.play(EVAL)
    assert lines(review(place, base)) == [("calc.py", 1)], "no lock and no worktree is in the way"


@pytest.mark.thorough
def test_a_stet_that_a_killed_segue_left_behind_is_waited_for(place: StetPlace) -> None:
    place.play(EVAL, hang=True)
    base = place.head
    place.commit({"calc.py": "eval(s)\n"})
    calls = place.root / "calls"
    real = place.stet.rename(place.stet.with_name("real"))
    place.stet.write_text(f'#!/bin/sh\necho "$1" >> "{calls}"\nexec "{real}" "$@"\n')
    place.stet.chmod(0o755)
    (place.repo / ".git" / "info" / "exclude").write_text(".review/\n")
    Ownership.of(place.repo, place.root / "state").claim(base)
    env = bare_environment(SEGUE_SIM_STET=str(place.script), **IDENTITY)
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


def test_a_stet_that_never_ends_is_not_waited_for_for_ever(place: StetPlace) -> None:
    busy = place.root / "bin" / "busy"
    busy.write_text(
        "#!/bin/sh\n"
        "[ $1 = status ] && { echo 'No active session.' >&2; exit 1; }\n"
        "echo 'finish or cleanup current review first' >&2; exit 1\n"
    )
    busy.chmod(0o755)
    assert "another stet has been at work" in review(place, place.head, cmd=str(busy), timeout=1).failure


@pytest.mark.thorough
def test_dismissing_reaches_stet(place: StetPlace) -> None:
    place.play(EVAL, TODO)
    base = place.head
    place.commit({"calc.py": "eval(s)\n" + "x\n" * 20 + "# TODO\n"})
    found = review(place, base).findings
    stranger = Finding("zzzz", "x", 1, Severity.INFO, "", "never reported")
    told = [(found[0], DismissReason.WRONG_SUGGESTION), (stranger, DismissReason.OUT_OF_SCOPE)]
    asyncio.run(reviewer(place).dismiss(place.subject(base), told))
    history = (place.repo / ".review" / "history.jsonl").read_text().splitlines()
    assert json.loads(history[-1])["user_action"]["dismissals"] == [
        {"finding_id": found[0].id, "reason": "wrong_suggestion"}
    ]


@pytest.mark.thorough
def test_an_id_that_stet_finds_ambiguous_does_no_harm(place: StetPlace) -> None:
    place.play(EVAL)
    base = place.head
    place.commit({"calc.py": "a = 1\nb = eval(s)\n"})
    review(place, base)
    place.commit({"calc.py": "a = 2\nb = eval(s)\n"})
    found = review(place, base, again=True).findings
    told = [(found[0], DismissReason.FALSE_POSITIVE)]
    assert "ambiguous" in place.call("dismiss", found[0].id).stderr
    asyncio.run(reviewer(place).dismiss(place.subject(base), told))


@pytest.mark.thorough
def test_git_gets_a_name_where_the_user_has_none(place: StetPlace) -> None:
    place.play(EVAL)
    base = place.head
    place.commit({"calc.py": "eval(s)\n"})
    nobody = {"HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/nonexistent"}
    review(place, base, env=nobody)
    place.git("config", "user.useConfigOnly", "true")
    assert finish(place, env=nobody) == ""
    assert place.git("log", "-1", "--format=%an", "refs/notes/stet")


@pytest.mark.thorough
def test_finish_that_fails_is_a_warning(place: StetPlace) -> None:
    base = place.head
    place.commit({"calc.py": "x = 1\n"})
    review(place, base)
    (place.repo / ".git" / "refs" / "notes").mkdir(exist_ok=True)
    (place.repo / ".git" / "refs" / "notes" / "stet.lock").write_text("")
    warning = finish(place)
    assert "Could not write Git note" in warning
    assert "by hand: stet finish" in warning


@pytest.mark.thorough
def test_when_to_finish(place: StetPlace) -> None:
    base = place.head
    place.commit({"calc.py": "x = 1\n"})
    for mode, after_task, after_run in (("task", False, False), ("run", True, False), ("never", True, True)):
        review(place, base)
        assert finish(place, task="1", finish=mode) == ""
        assert has_session(place) is after_task
        assert finish(place, task="", finish=mode) == ""
        assert has_session(place) is after_run


@pytest.mark.thorough
def test_one_session_for_the_whole_run(place: StetPlace) -> None:
    place.play(EVAL)
    first = place.head
    second = place.commit({"one.py": "eval(s)\n"})
    assert lines(review(place, first, finish="run")) == [("one.py", 1)]
    assert finish(place, finish="run") == ""
    place.commit({"two.py": "eval(s)\n"})
    both = [("one.py", 1), ("two.py", 1)]
    assert lines(review(place, second, task="2", finish="run")) == both


@pytest.mark.thorough
def test_commands_of_the_users_own(place: StetPlace) -> None:
    place.play(EVAL)
    base = place.head
    place.commit({"calc.py": "eval(s)\n"})
    log = place.root / "calls"
    note = [sys.executable, "-c", f"open({str(log)!r}, 'a').write('first ')"]
    commands = [note, f"{place.stet} start {{base}}", f"{place.stet} run --json"]
    assert lines(review(place, base, commands=commands)) == [("calc.py", 1)]
    place.commit({"calc.py": "eval(s)  # checked\n"})
    assert lines(review(place, base, again=True, commands=commands)) == []
    assert log.read_text() == "first ", "only the last command is run again"
    assert finish(place, commands=commands) == ""
    assert not has_session(place)
    second = place.commit({"two.py": "eval(s)\n"})
    failing = [[sys.executable, "-c", "raise SystemExit('no luck')"], commands[2]]
    assert "no luck" in review(place, second, task="2", commands=failing).failure


def test_a_wrapper_that_brings_its_own_stet(place: StetPlace) -> None:
    wrapper = [[sys.executable, "-c", "print('calc.py:3  WARNING  hm'); print('1 finding.')"]]
    options: dict[str, Any] = {"cmd": "no-such-stet", "commands": wrapper}
    assert reviewer(place, **options).check() == []
    assert lines(review(place, place.head, **options)) == [("calc.py", 3)]
    assert finish(place, **options) == ""


def test_a_stet_that_is_not_there(place: StetPlace) -> None:
    (problem,) = reviewer(place, cmd="no-such-stet").check()
    assert problem.exit_code == 5
    assert "no-such-stet" in problem.message
    assert "no-such-stet" in review(place, place.head, cmd="no-such-stet").failure


def test_a_repository_without_a_commit_before_the_task(place: StetPlace) -> None:
    assert "compares with a commit" in review(place, "").failure


def test_secrets_are_taken_out(place: StetPlace) -> None:
    place.play({**EVAL, "message": f"the key {SECRET}"})
    base = place.head
    place.commit({"calc.py": "eval(s)\n"})
    done = review(place, base)
    assert done.findings[0].message == "the key [redacted]"
    assert SECRET not in done.output


def test_stet_as_a_plain_command(place: StetPlace) -> None:
    (place.repo / ".git" / "info" / "exclude").write_text(".review/\n")
    place.play(EVAL)
    base = place.head
    place.commit({"calc.py": "eval(s)\n"})
    env = {
        "PATH": f"{place.stet.parent}{os.pathsep}{os.environ['PATH']}",
        "SEGUE_SIM_STET": str(place.script),
    }
    table = {
        "argv": ["stet", "start", "{base}", "--json"],
        "again": ["stet", "run", "--json"],
        "format": "stet",
        "needs_commit": True,
        "env": env,
    }
    reviewer = CommandReviewer(read_options(CommandReviewOptions, table), make_services(place.repo))

    def command(again: bool) -> Review:
        return asyncio.run(reviewer.review(place.subject(base, "1"), again))

    assert [finding.file for finding in command(False).findings] == ["calc.py"]
    place.commit({"calc.py": "eval(s)  # checked\n"})
    assert command(True).findings == ()


def with_stet(place: StetPlace, script: Path) -> Callable[[Services], Reviewer]:
    env = {"SEGUE_SIM_STET": str(script)}
    options = read_options(StetOptions, {"cmd": str(place.stet), "env": env})
    return partial(StetReviewer, options)


@pytest.mark.thorough
def test_stet_conforms(tmp_path: Path) -> None:
    place = StetPlace.make(tmp_path)
    place.play(EVAL)
    broken = tmp_path / "broken.json"
    broken.write_text('{"faults": {"llm_down": true}}')
    check_reviewer(
        with_stet(place, place.script),
        "src/calc.py",
        "x = eval(s)\n",
        "x = eval(s)  # checked\n",
        fails=with_stet(place, broken),
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
        "stet start&&stet run",
        "stet run | tee log",
        "stet start; stet run",
        "stet run > out.json",
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
    "wrong",
    [
        {"commands": []},
        {"commands": ""},
        {"commands": [[]]},
        {"commands": [[""]]},
        {"commands": "stet 'run"},
        {"commands": "stet start {ref}"},
        {"commands": "stet start {"},
        {"cmd": ""},
        {"timeout": 0},
        {"finish": "later"},
        {"command": "stet"},
    ],
)
def test_mistakes_in_stets_options(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        read_options(StetOptions, wrong)
