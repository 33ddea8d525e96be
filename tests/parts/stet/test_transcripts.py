"""The stand-in for stet prints what the real one was seen to print, line by line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.parts.stet.place import EVAL, StetPlace

TRANSCRIPT = Path(__file__).with_name("transcripts") / "stet.txt"
UNKNOWN = {"hex7": "[0-9a-f]{7}", "hex64": "[0-9a-f]{64}", "text": '[^"]+'}
NOTE = [
    *("session_id", "baseline_sha", "head_sha", "findings_count", "dismissals_count", "tool_version"),
    *("finished_at", "hunks_reviewed", "lines_added", "lines_removed", "chars_added", "chars_deleted"),
    *("chars_reviewed", "model", "prompt_tokens", "completion_tokens", "eval_duration_ns"),
]


@pytest.fixture
def place(tmp_path: Path) -> StetPlace:
    made = StetPlace.make(tmp_path)
    (made.repo / ".git" / "info" / "exclude").write_text(".review/\n")
    made.play(EVAL)
    return made


def recorded(known: dict[str, str]) -> list[tuple[list[str], list[str], list[str], int]]:
    """The commands of the transcript, each with what it prints and its exit code."""
    found = []
    for part in TRANSCRIPT.read_text().split("\n$ ")[1:]:
        for name, value in known.items():
            part = part.replace(f"{{{name}}}", value)
        command, *lines = [line for line in part.split("\n") if line]
        code = int(lines.pop()[2:]) if lines and lines[-1].startswith("= ") else 0
        err = [line[3:] for line in lines if line.startswith("2| ")]
        found.append((command.split()[1:], [line for line in lines if not line.startswith("2| ")], err, code))
    return found


def pattern(line: str) -> str:
    text = re.escape(line)
    for name, form in UNKNOWN.items():
        text = text.replace(re.escape(f"{{{name}}}"), form)
    return text


@pytest.mark.thorough
def test_the_whole_transcript(place: StetPlace) -> None:
    base = place.head
    place.commit({"calc.py": "a = 1\nb = 2\nc = 3\nd = eval(s)\n"})
    known = {"base": base, "base12": base[:12], "head": place.head, "repo": str(place.repo)}
    calls = recorded(known)
    assert len(calls) > 20
    for arguments, out, err, code in calls:
        done = place.call(*arguments)
        for printed, wanted in ((done.stdout, out), (done.stderr, err)):
            lines = printed.splitlines()
            assert len(lines) == len(wanted), (arguments, printed)
            for line, form in zip(lines, wanted, strict=True):
                assert re.fullmatch(pattern(form), line), (arguments, line)
        assert done.returncode == code, arguments
    note = place.git("notes", "--ref=stet", "show", "HEAD")
    assert re.findall(r'"(\w+)":', note) == NOTE
    assert '"lines_added":4,"lines_removed":0,"chars_added":26' in note


def test_outside_of_a_repository_only_the_doctor_works(place: StetPlace, tmp_path: Path) -> None:
    for command in ("start", "run", "status", "list", "finish", "cleanup"):
        done = place.call(command, cwd=tmp_path)
        said = "This directory is not inside a Git repository.\nDetails: exit status 128\n"
        assert (done.returncode, done.stdout, done.stderr) == (1, "", said)
    assert place.call("doctor", cwd=tmp_path).stdout.startswith("Ollama OK\n")


def test_generated_files_are_not_reviewed_and_doubtful_findings_left_out(place: StetPlace) -> None:
    base = place.head
    place.commit(
        {"vendor/a.py": "eval(s)\n", "package-lock.json": "eval(s)\n", "x/coverage/b.py": "eval(s)\n"}
    )
    done = place.call("start", base)
    assert done.stderr.splitlines()[1:] == ["0 hunks to review, 0 already approved", "Nothing to review."]
    assert place.call("finish").returncode == 0
    place.play({**EVAL, "confidence": "0.7"})
    place.commit({"calc.py": "eval(s)\n"})
    assert place.call("start", base, "-q").stdout == "0 finding(s).\n"
    assert place.call("rerun", "-q", "--strictness", "Strict+").stdout.endswith("1 finding.\n")
    place.play({**EVAL, "confidence": "1"})
    assert '"confidence":1,' in place.call("rerun", "--replace", "--json").stdout


def test_the_doctor_misses_a_model(place: StetPlace) -> None:
    place.play(no_model=True)
    done = place.call("doctor")
    said = 'Model "qwen3-coder:30b" not found. Pull it with: ollama pull qwen3-coder:30b\n'
    assert (done.returncode, done.stdout, done.stderr) == (1, "", said)
