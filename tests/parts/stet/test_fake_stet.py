"""The stand-in for stet does what the real one was seen to do: texts, exit codes, files on disk."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from segue.parts.stet.sim import command as stet
from tests.parts.stet.place import EVAL, StetPlace
from tests.reviewers.place import IDENTITY, bare_environment

DEADLINE = 300.0


@pytest.fixture
def place(tmp_path: Path) -> StetPlace:
    """A repository whose `.review/` is kept out of git, as stet advises."""
    made = StetPlace.make(tmp_path)
    (made.repo / ".git" / "info" / "exclude").write_text(".review/\n")
    return made


def findings(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1, "exactly one line"
    found: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    return found


def session(place: StetPlace) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((place.repo / ".review" / "session.json").read_text())
    return loaded


def opened(place: StetPlace) -> str:
    """Start a review with one finding; gives the baseline."""
    place.play(EVAL)
    base = place.head
    place.commit({"calc.py": "a = 1\nb = 2\nc = 3\nd = eval(s)\n"})
    assert len(findings(place.call("start", base, "--json"))) == 1
    return base


def test_a_finding_in_json(place: StetPlace) -> None:
    base = opened(place)
    found = findings(place.call("run", "--json"))
    assert list(found[0]) == [
        "id", "file", "line", "severity", "category", "confidence", "message", "suggestion", "cursor_uri",
    ]  # fmt: skip
    assert len(found[0]["id"]) == 64
    assert (found[0]["file"], found[0]["line"], found[0]["message"]) == ("calc.py", 4, "eval on <input>")
    assert "\\u003cinput\\u003e" in place.call("run", "--json").stdout
    assert session(place)["baseline_ref"] == base
    assert (place.repo / ".review" / "worktrees" / f"stet-{base[:12]}" / "README.md").exists()
    assert (place.repo / ".review" / "lock").exists()


@pytest.mark.thorough
def test_the_human_shape(place: StetPlace) -> None:
    base = opened(place)
    name = session(place)["findings"][0]["id"][:7]
    line = f"{name}  calc.py:4  ERROR  eval on <input>\n"
    assert place.call("run").stdout == line + "1 finding.\n"
    assert place.call("list").stdout == line
    assert place.call("status").stdout.splitlines() == [
        f"baseline: {base}",
        f"last_reviewed_at: {place.head}",
        f"worktree: {place.repo / '.review' / 'worktrees'}/stet-{base[:12]}",
        "findings: 1",
        "dismissed: 0",
    ]
    assert place.call("status", "-i").stdout.endswith("---\n" + line)


def test_the_stream_shows_this_run_alone(place: StetPlace) -> None:
    place.play(EVAL)
    base = place.head
    place.commit({"calc.py": "eval(s)\n"})
    lines = place.call("start", base, "--json", "--stream").stdout.splitlines()
    assert lines[0] == '{"msg":"1 hunks to review","type":"progress"}'
    assert lines[1] == '{"msg":"Reviewing hunk 1/1: calc.py","type":"progress"}'
    assert lines[2].startswith('{"data":{"id":')
    assert lines[3] == '{"type":"done"}'
    assert '"finding"' not in place.call("run", "--json", "--stream").stdout


def test_findings_do_not_change_the_exit_code_and_nothing_is_found_in_nothing(place: StetPlace) -> None:
    place.play(EVAL)
    place.commit({"calc.py": "eval(s)\n"})
    assert findings(place.call("start", "--json")) == []
    assert place.call("finish").returncode == 0
    assert place.call("start").stdout == "0 finding(s).\n"
    assert place.call("start", "--json", "--stream").stdout == ""


def test_run_is_incremental_and_takes_what_is_gone_as_addressed(place: StetPlace) -> None:
    opened(place)
    assert len(findings(place.call("run", "--json"))) == 1, "nothing new: the open finding is repeated"
    place.commit({"calc.py": "a = 1\nb = 2\nc = 3\nd = eval(s)  # checked\n"})
    assert findings(place.call("run", "--json")) == []
    assert "findings: 1\ndismissed: 1\n" in place.call("status").stdout


def test_uncommitted_edits_are_not_seen(place: StetPlace) -> None:
    opened(place)
    (place.repo / "calc.py").write_text("d = 4\n")
    assert len(findings(place.call("run", "--json"))) == 1


def test_a_finding_that_is_reported_again_stands_twice_and_cannot_be_dismissed(place: StetPlace) -> None:
    opened(place)
    name = session(place)["findings"][0]["id"]
    place.commit({"calc.py": "a = 11\nb = 2\nc = 3\nd = eval(s)\n"})
    assert [entry["id"] for entry in findings(place.call("run", "--json"))] == [name, name]
    done = place.call("dismiss", name, "out_of_scope")
    assert (done.returncode, done.stderr) == (1, f'ambiguous id "{name}"; use more characters\n')
    assert len(findings(place.call("rerun", "--replace", "--json"))) == 1
    assert place.call("dismiss", name).returncode == 0


@pytest.mark.thorough
def test_a_dismissed_finding_hides_its_hunk_from_run_but_not_from_rerun(place: StetPlace) -> None:
    opened(place)
    name = session(place)["findings"][0]["id"]
    done = place.call("dismiss", name[:4], "false_positive")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    place.commit({"calc.py": "a = 1\nb = eval(t)\nc = 3\nd = eval(s)\n"})
    assert findings(place.call("run", "--json")) == []
    assert [entry["line"] for entry in findings(place.call("rerun", "--json"))] == [2]


@pytest.mark.thorough
def test_another_start_replaces_the_session_and_leaves_an_orphan(place: StetPlace) -> None:
    first = opened(place)
    second = place.head
    place.commit({"more.py": "x = 1\n"})
    assert findings(place.call("start", second, "--json")) == []
    assert session(place)["baseline_ref"] == second
    done = place.call("start", first)
    assert done.stderr.splitlines() == [
        "Hint: Run 'stet finish' to end the current review and remove the worktree, "
        f"then run 'stet start {first}' again.",
        "worktree already exists",
    ]
    assert place.call("finish").returncode == 0
    assert place.call("start", first).returncode == 1, "finish does not help"
    orphan = place.repo / ".review" / "worktrees" / f"stet-{first[:12]}"
    assert place.call("cleanup").stderr == f"Removed worktree: {orphan}\n"
    assert place.call("cleanup").stderr == "No orphan worktrees.\n"
    assert place.call("start", first).returncode == 0


def test_finish_writes_a_note_and_keeps_the_history(place: StetPlace) -> None:
    base = opened(place)
    done = place.call("finish")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    note = json.loads(place.git("notes", "--ref=stet", "show", "HEAD"))
    assert (note["baseline_sha"], note["findings_count"]) == (base, 1)
    left = sorted(path.name for path in (place.repo / ".review").iterdir())
    assert left == ["history.jsonl", "lock", "worktrees"]


def test_finish_without_a_git_identity_loses_the_worktree_and_keeps_the_session(place: StetPlace) -> None:
    base = opened(place)
    nobody = dict.fromkeys(IDENTITY, "")
    done = place.call("finish", env=nobody)
    assert done.returncode == 1
    assert done.stderr.startswith("Could not write Git note for this review.\n")
    assert not (place.repo / ".review" / "worktrees" / f"stet-{base[:12]}").exists()
    assert session(place)["baseline_ref"] == base
    assert place.call("finish").returncode == 0


def test_the_folders_can_lie_elsewhere(place: StetPlace, tmp_path: Path) -> None:
    (place.repo / ".git" / "info" / "exclude").write_text("")
    place.play(EVAL)
    base = place.head
    place.commit({"calc.py": "eval(s)\n"})
    elsewhere = {"STET_STATE_DIR": str(tmp_path / "state"), "STET_WORKTREE_ROOT": str(tmp_path / "trees")}
    assert len(findings(place.call("start", base, "--json", env=elsewhere))) == 1
    assert place.git("status", "--porcelain") == ""
    assert (tmp_path / "trees" / f"stet-{base[:12]}").is_dir()


def test_without_an_exclusion_the_tree_is_dirty_for_ever(place: StetPlace) -> None:
    (place.repo / ".git" / "info" / "exclude").write_text("")
    base = opened(place)
    assert place.call("finish").returncode == 0
    assert place.call("start", base).returncode == 1
    assert place.git("status", "--porcelain") == "?? .review/"


MISUSES = [
    (["run"], "no active session; run stet start first"),
    (["rerun"], "no active session; run stet start first"),
    (["finish"], "no active session; run stet start first"),
    (["dismiss", "abcd"], "no active session; run stet start first"),
    (["status"], "No active session. Run 'stet start' to begin a review."),
    (["list"], "No active session. Run 'stet start' to begin a review."),
    (["dismiss", "abcd", "boring"], "Invalid reason; use one of: false_positive, already_correct, "
     "wrong_suggestion, out_of_scope."),
    (["start", "--stream"], "--stream requires --output=json or --json."),
    (["start", "--output", "xml"], "Invalid output format; use human or json."),
    (["start", "--output=xml"], "Invalid output format; use human or json."),
    (["review"], 'unknown command "review" for "stet"'),
    (["run", "--allow-dirty"], "unknown flag: --allow-dirty"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "text"), MISUSES)
def test_misuse(place: StetPlace, arguments: list[str], text: str) -> None:
    done = place.call(*arguments)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", text + "\n")


def test_dismiss_refuses_ids_that_are_too_short_or_unknown(place: StetPlace) -> None:
    opened(place)
    assert place.call("dismiss", "abc").stderr == "finding id must be at least 4 characters\n"
    assert place.call("dismiss", "zzzz").stderr == 'no finding with id "zzzz"\n'


def test_outside_of_a_repository(place: StetPlace, tmp_path: Path) -> None:
    done = place.call("start", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("This directory is not inside a Git repository.\nDetails: ")


@pytest.mark.parametrize("text", ["untracked", "changed"])
def test_a_dirty_tree(place: StetPlace, text: str) -> None:
    (place.repo / ("new.txt" if text == "untracked" else "README.md")).write_text(text)
    done = place.call("start", "HEAD")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "Hint: Commit or stash your changes, then run 'stet start HEAD' again.",
        "working tree has uncommitted changes; commit or stash before starting",
    ]
    assert place.call("start", "HEAD", "--allow-dirty").returncode == 0


def test_a_baseline_that_does_not_fit(place: StetPlace) -> None:
    done = place.call("start", "nowhere")
    assert done.returncode == 1
    assert done.stderr.splitlines()[:2] == [
        'Could not resolve baseline ref "nowhere".',
        "Details: Invalid ref or commit.",
    ]
    side = place.commit({"side.txt": "side\n"})
    place.git("checkout", "--quiet", "-b", "other", "HEAD~1")
    place.commit({"other.txt": "other\n"})
    assert place.call("start", side).stderr == "baseline ref is not an ancestor of HEAD\n"


def test_the_model_is_down(place: StetPlace) -> None:
    base = place.head
    place.commit({"calc.py": "x = 1\n"})
    place.play(llm_down=True)
    done = place.call("start", base)
    assert done.returncode == 2
    first, *details = done.stderr.splitlines()
    assert first == (
        "Ollama unreachable at http://localhost:11434. Is the server running? For local: ollama serve."
    )
    assert details[0].startswith("Details: ")
    place.play(bad_request=["start"])
    done = place.call("start", base)
    assert done.returncode == 2
    assert done.stderr.startswith("LLM bad request at http://localhost:11434. ")


def test_a_failure_in_the_middle_leaves_a_session_that_run_completes(place: StetPlace) -> None:
    base = place.head
    place.commit({"calc.py": "eval(s)\n"})
    place.play(EVAL, parse_failure=["start"])
    done = place.call("start", base, "--json", "--stream")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Review failed for calc.py.\nDetails: review: parse failed (after retry): ")
    assert session(place)["last_reviewed_at"] == ""
    assert not (place.repo / ".review" / "worktrees" / f"stet-{base[:12]}").exists()
    assert len(findings(place.call("run", "--json"))) == 1


@pytest.mark.thorough
def test_a_corrupt_session(place: StetPlace) -> None:
    base = place.head
    place.commit({"calc.py": "x = 1\n"})
    place.play(corrupt_session=True)
    place.call("start", base)
    for command in ("run", "status", "finish"):
        done = place.call(command)
        assert done.returncode == 1
        assert done.stderr.startswith("Session file is invalid or corrupted.\n")


def test_an_early_build_knows_no_json_flag(place: StetPlace) -> None:
    place.play(EVAL, no_json_flag=True)
    base = place.head
    place.commit({"calc.py": "eval(s)\n"})
    done = place.call("start", base, "--json")
    assert (done.returncode, done.stderr) == (1, "unknown flag: --json\n")
    assert len(findings(place.call("start", base))) == 1
    place.play(EVAL, no_json_flag="human")
    assert place.call("run").stdout.endswith("1 finding.\n")


def test_while_one_start_runs_another_is_refused(place: StetPlace) -> None:
    base = place.head
    place.commit({"calc.py": "x = 1\n"})
    place.play(hang=True)
    env = bare_environment(SEGUE_SIM_STET=str(place.script), **IDENTITY)
    command = [sys.executable, stet.__file__, "start", base]
    hanging = subprocess.Popen(command, cwd=place.repo, env=env, start_new_session=True)
    try:
        end = time.monotonic() + DEADLINE
        while not (place.repo / ".review" / "session.json").exists():
            assert time.monotonic() < end, "it never got as far as its session"
            time.sleep(0.01)
        done = place.call("start", base)
        assert done.returncode == 1
        assert done.stderr.startswith("Hint: Run 'stet finish' ")
        assert done.stderr.endswith("\nfinish or cleanup current review first\n")
    finally:
        os.killpg(hanging.pid, signal.SIGKILL)
        hanging.wait()


def test_version_and_doctor(place: StetPlace) -> None:
    assert place.call("--version").stdout == "stet version dev\n"
    assert place.call("doctor").stdout == "Ollama OK\nModel: qwen3-coder:30b\n"


def test_a_script_may_be_toml(place: StetPlace, tmp_path: Path) -> None:
    script = tmp_path / "script.toml"
    script.write_text('[[findings]]\npattern = "TODO"\n\n[faults]\nllm_down = ["run"]\n')
    base = place.head
    place.commit({"calc.py": "# TODO\n"})
    env = {"SEGUE_SIM_STET": str(script)}
    assert findings(place.call("start", base, "--json", env=env))[0]["message"] == "matches TODO"
    place.commit({"calc.py": "# TODO now\n"})
    assert place.call("run", env=env).returncode == 2
