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


@pytest.mark.parametrize("columns", [80])
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
