"""What a person sees while a run works: a table on a terminal, lines elsewhere, and a summary to paste."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import termios
from itertools import pairwise
from pathlib import Path

import pytest

from segue.cli.terminal.output import AGENT_VARIABLES
from segue.cli.terminal.table import width
from tests.cli.place import DEADLINE, Place
from tests.warm import start_segue

_SCRIPT = """
[[on]]
task = "2"
attempt = 1
say = "I claim to be done."
usage = { input_tokens = 900, output_tokens = 100, cost_usd = 0.25 }

[[on]]
task = "3"
attempt = 1
limit = "You've hit your usage limit. Try again in 4 seconds."

[[on]]
say = "Written."
usage = { input_tokens = 1900, output_tokens = 100, cost_usd = 0.5 }
delay = 0.6
write = { "{task}.txt" = "x" }
"""
_PLAN = """# Plan

## Task 1
Write a fairly long text into one.txt, so that a narrow terminal has to cut this.

## Task 2
データベースの接続プールを実装して、失敗した場合は三回まで再試行する。

## Task 3
Write three 👩‍👩‍👧 ❤️ e\u0301.
"""
UNTIL = r"Task 3 waits until \w{3} \d+ \w{3} \d\d:\d\d:\d\d, (in \d+ s|now): usage limit"


def shown(place: Place, columns: int, *args: str, code: int = 0, **env: str) -> str:
    """Everything segue writes to a terminal of this width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    known = {name: value for name, value in place.env.items() if name not in (*AGENT_VARIABLES, "COLUMNS")}
    with os.fdopen(ours, "rb", closefd=True) as terminal:
        with os.fdopen(theirs, "w") as out:
            done = start_segue(args, place.repo, {**known, "TERM": "xterm-256color", **env}, out)
        text = b""
        while piece := _read(terminal.fileno()):
            text += piece
        assert done.wait(DEADLINE) == code, text.decode()
    return text.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""  # what Linux says when the other end is closed


def lines_of(text: str) -> list[str]:
    """The lines of all frames, without colours; what moves the cursor parts them."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    return [line.rstrip() for line in re.split(r"\x1b\[[?0-9]*[A-Za-z]|[\r\n]+", plain)]


@pytest.fixture
def busy(tmp_path: Path) -> Place:
    place = Place.make(tmp_path, _PLAN)
    place.script(_SCRIPT)
    place.env |= {"SEGUE_LIMITS__ATTEMPTS": "3", "SEGUE_LIMITS__COST_USD": "10"}
    return place


@pytest.mark.quick("80")
@pytest.mark.parametrize("columns", [60, 80, 100, 200])
def test_the_table_fits_its_terminal_and_shows_what_matters(busy: Place, columns: int) -> None:
    lines = lines_of(shown(busy, columns, "run", "plan.md"))
    end = next(i for i, line in enumerate(lines) if re.match(r"Run .*: done$", line))
    run_id = lines[end].split()[1].rstrip(":")
    begin = next(i for i, line in enumerate(lines) if line.startswith("task "))
    frames, summary = lines[begin:end], lines[end:]
    assert max(map(width, frames)) <= columns
    heads = [line.split() for line in frames if line.startswith("task ")]
    assert {"task", "title", "state", "time"} <= set(heads[-1])
    assert ("phase" in heads[-1], "cost" in heads[-1]) == (columns > 60, columns > 80)
    assert any("Write a fairly long text into" in line for line in frames), "titles stay readable"
    assert any(re.match(r"2 +データベースの接続プールを実", line) for line in frames)
    rows = [line.partition("pending") for line in frames]
    below = [(one, other) for (one, *found), (other, *more) in pairwise(rows) if found[0] and more[0]]
    assert all(width(one) == width(other) for one, other in below), "aligned, also below wide letters"
    hints = {line for line in frames if line.startswith("Ctrl-C")}
    assert hints == {f"Ctrl-C stops and saves · run {run_id}"}
    assert any(re.search(r"░ 0 of 3 tasks done · no estimate yet", line) for line in frames)
    assert any(re.search(r"█░+ 1 of 3 tasks done · about \d+s left", line) for line in frames)
    assert any(re.match(r"3 .* parked ", line) for line in frames)
    assert any(re.match(UNTIL, line) for line in frames), "parked, and until when"
    assert columns == 60 or any(re.match(r"2 .*execute 2", line) for line in frames), "the attempt"
    assert any(re.match(r"\d\d:\d\d:\d\d usage limit: task 3", line) for line in frames)
    used = [line for line in frames if "launches" in line][-1]
    assert re.search(r"5 launches · [\d,]+ tokens · \$1\.75 of \$10\.00 \(18 %\)$", used), used
    assert max(map(width, summary)) <= columns
    assert "total  3 done; 5 launches" in "\n".join(summary)
    assert f"Next: Proof of each task: segue proof {run_id}" in summary
    assert "Proven: 0 of 3 tasks. Needs you: nothing. Cost: $1.75." in summary


@pytest.mark.thorough
def test_several_tasks_at_once_keep_a_row_per_task(busy: Place) -> None:
    lines = lines_of(shown(busy, 100, "run", "plan.md", "--jobs", "3"))
    end = next(i for i, line in enumerate(lines) if re.match(r"Run .*: done$", line))
    begin = next(i for i, line in enumerate(lines) if re.match(r"task ", line))
    frames = lines[begin:end]
    assert max(map(len, frames)) <= 100
    assert any(re.match(r"1 .*running +execute 1 +scripted", line) for line in frames)
    assert any(re.match(r"3 .*parked", line) for line in frames)
    assert any(re.match(UNTIL, line) for line in frames), "parked, and until when"
    rows = [line for line in frames if re.match(r"[123] ", line)]
    assert len(rows) >= 3 * sum(line.startswith("task ") for line in frames), "pending ones stay"


@pytest.mark.thorough
def test_a_resumed_run_shows_what_was_done_before(busy: Place) -> None:
    once = busy.segue("run", "plan.md", "--fail-fast", code=3, SEGUE_LIMITS__ATTEMPTS="1")
    failed = once.stdout.splitlines()
    assert [line[0] for line in failed[1:5]] == ["T", "2", "1", "3"], "what failed comes first"
    lines = lines_of(shown(busy, 120, "resume"))
    first = next(i for i, line in enumerate(lines) if "launches" in line)
    told = re.search(r"launches · (\d),000 tokens · \$\d\.\d\d of", lines[first])
    assert told, lines[first]
    assert int(told[1]) >= 3, "what earlier sessions used is counted from the first frame on"
    assert any(re.match(r"1 .* done +changed +execute 1", line) for line in lines[:first])
    assert any(re.match(r"2 .* (running|done) +execute 3", line) for line in lines), "counted on from before"


@pytest.mark.thorough
def test_planning_has_a_row_before_there_are_tasks(place: Place) -> None:
    place.script('[[on]]\nphase = "outline"\ndelay = 2\n')
    lines = lines_of(shown(place, 100, "run", "Build a thing"))
    first = next(
        i for i, line in enumerate(lines) if re.match(r"plan  Plan the steps +running +outline 1", line)
    )
    assert not any(re.match(r"1 +Set the project up", line) for line in lines[:first])


@pytest.mark.thorough
def test_searches_and_new_plans_are_shown(place: Place) -> None:
    lines = lines_of(shown(place, 100, "demo", "build", "--dir", str(place.root / "demo")))
    assert any("1 search · 2 plans made" in line for line in lines)
    assert any(re.match(r"\d\d:\d\d:\d\d searched ", line) for line in lines)
    assert any(re.match(r"plan +Plan the steps +done", line) for line in lines), "in the summary"


@pytest.mark.thorough
def test_colour_only_where_it_is_wanted(busy: Place) -> None:
    colour = re.compile(r"\x1b\[(?:[0-9;]*;)?3[0-9]m")
    assert colour.search(shown(busy, 100, "run", "plan.md", "--task", "1"))
    assert not colour.search(shown(busy, 100, "run", "plan.md", "--task", "2", NO_COLOR="1"))
    assert not colour.search(shown(busy, 100, "run", "plan.md", "--task", "3", "--color", "never"))
    assert not colour.search(shown(busy, 100, "status", "last", NO_COLOR="1"))


@pytest.mark.thorough
def test_quiet_says_nothing_and_no_terminal_gets_lines(busy: Place) -> None:
    said = shown(busy, 100, "run", "plan.md", "--task", "1", "--quiet")
    assert said.strip() == "Agents are not isolated.", "nothing but a warning"
    done = busy.segue("run", "plan.md")
    assert re.search(r"^\d\d:\d\d:\d\d 2 execute 1  agent started", done.stderr, re.MULTILINE)
    assert "\x1b" not in done.stderr + done.stdout
    rows = [line for line in done.stdout.splitlines() if re.match(r"TASK|\d |total", line)]
    assert rows[0].split()[:3] == ["TASK", "TITLE", "STATE"]
    starts = {width(row.partition(" done ")[0]) for row in rows[1:3]}
    assert starts == {rows[0].index("STATE") - 1}, "aligned"
    assert rows[-1].split()[-1] == "$1.25"
