"""The first line of scripts that tests write, as our own Python runs them."""

from __future__ import annotations

import sys

_LONGEST = 120


def shebang(flags: str = "") -> str:
    """Return a first line that every system understands, even for a long path or one with spaces."""
    line = f"#!{sys.executable} {flags}".rstrip()
    if " " not in sys.executable and len(line) <= _LONGEST:
        return line
    return f"#!/bin/sh\n'''exec' \"{sys.executable}\" {flags} \"$0\" \"$@\"\n' '''"
