"""A terminal that changes its size while a run is shown: real terminals, real signals."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import termios

from tests.cli.place import DEADLINE, Place
from tests.cli.test_display import _read, lines_of
from tests.warm import start_segue


def test_a_resize_leaves_no_debris(place: Place) -> None:
    place.script('[[on]]\nsay = "Written."\ndelay = 1.5\nwrite = { "{task}.txt" = "x" }\n')
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 110, 0, 0))
    env = {name: value for name, value in place.env.items() if name != "COLUMNS"}
    with os.fdopen(ours, "rb", closefd=True) as terminal:
        with os.fdopen(theirs, "w") as out:
            done = start_segue(("run", "plan.md"), place.repo, {**env, "TERM": "xterm-256color"}, out)
        before = b""
        while b"0 of 3 tasks done" not in before:
            piece = _read(terminal.fileno())
            assert piece, before
            before += piece
        fcntl.ioctl(terminal.fileno(), termios.TIOCSWINSZ, struct.pack("HHHH", 40, 70, 0, 0))
        after = b""
        while piece := _read(terminal.fileno()):
            after += piece
        assert done.wait(DEADLINE) == 0
    _, cleared, rest = after.decode().rpartition("\x1b[2J\x1b[H")
    assert cleared, "the first frame of the new size is drawn on a clean screen"
    assert "\x1b[2J" not in rest
    first_frame = rest.partition("Ctrl-C")[0]
    assert not re.search(r"\x1b\[\d*A", first_frame), "nothing above it is overwritten"
    assert max(map(len, lines_of(rest))) <= 70
