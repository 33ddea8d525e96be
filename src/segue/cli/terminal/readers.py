"""Let a run outlive whoever reads its output: in `segue run --json | head` only `head` ends early."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click


class _Lasting(io.FileIO):
    """A pipe, into which nothing is written any more once its reader is gone."""

    def write(self, data: Any) -> int:
        """Write the bytes, or leave them out."""
        try:
            return super().write(data) or 0
        except BrokenPipeError:
            with Path(os.devnull).open("wb") as nowhere:
                os.dup2(nowhere.fileno(), self.fileno())
            if self.fileno() == 1:
                click.echo("segue: nobody reads stdout any more; the run continues.", err=True)
            return len(data)


@contextmanager
def outlive_readers() -> Iterator[None]:
    """Take no notice of closed pipes inside the block."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(_wrap, before)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        sys.stdout, sys.stderr = before


def _wrap(stream: Any) -> Any:
    stream.flush()
    try:
        raw = _Lasting(stream.fileno(), "wb", closefd=False)
    except io.UnsupportedOperation:  # a program that calls Segue keeps what it prints in memory
        return stream
    return io.TextIOWrapper(
        io.BufferedWriter(raw), stream.encoding, stream.errors, line_buffering=True, write_through=True
    )
