"""Turns a call into a command and runs it under the supervisor.

Parameters are checked by pattern, then filled into the action's argv. The supervisor stops the command with
all its children, also when the relay is gone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from segue.domain.job import Limits
from segue.domain.options import fill_placeholders
from segue.features.relay.options import ActionSettings
from segue.system.process.processes import Chunk, Command, Exit, Processes, child_environment
from segue.system.redact import Redactor

MAX_VALUE = 4096
GRACE = 3.0
"""Seconds between interrupt, terminate and kill."""
_PRINTED_BYTES = 100 * 1024**2
"""What an action may print in all; beyond that it is stopped."""
_REASONS = {"wall": "timeout", "output": "output", "ended": "stopped"}
"""The supervisor's reasons as callers see them; others keep their names."""


class WrongParameter(Exception):
    """A parameter is missing, unknown, or does not match its pattern."""


def check_parameters(action: ActionSettings, given: Mapping[str, Any]) -> dict[str, str]:
    """Return the parameters if they are exactly those of the action and each one matches."""
    if unknown := sorted(given.keys() - action.parameters.keys()):
        raise WrongParameter(f"there is no parameter {unknown[0][:64]!r}")
    values: dict[str, str] = {}
    for name, pattern in action.parameters.items():
        if name not in given:
            raise WrongParameter(f"parameter {name} is missing")
        value = given[name]
        if not isinstance(value, str) or len(value) > MAX_VALUE or not _is_encodable(value):
            raise WrongParameter(f"parameter {name} must be a string of at most {MAX_VALUE} characters")
        if not re.fullmatch(pattern, value):
            raise WrongParameter(f"parameter {name} does not match {pattern}")
        values[name] = value
    return values


def make_argv(action: ActionSettings, values: Mapping[str, str]) -> list[str]:
    """Return the argv; no value may become an option where the action has none."""
    argv = [fill_placeholders(template, values) for template in action.argv]
    for template, argument in zip(action.argv, argv, strict=True):
        if argument.startswith("-") and not template.startswith("-"):
            raise WrongParameter("a parameter may not begin with a dash here")
    return argv


def make_command(action: ActionSettings, argv: list[str]) -> Command:
    """Return the command for the supervisor: no input, and no limit on silence."""
    limits = Limits(action.timeout, action.timeout, GRACE, _PRINTED_BYTES, action.output_bytes)
    env = child_environment(action.pass_env, action.env)
    return Command(tuple(argv), Path(action.cwd).expanduser(), env, b"", limits)


class FinishedAction(Struct, frozen=True):
    """How an action ended, and the end of its output."""

    exit: Exit
    out: str
    err: str
    cut: bool

    @property
    def is_lost(self) -> bool:
        """True if nobody saw how it ended."""
        return self.exit.reason == "lost"

    def body(self) -> dict[str, Any]:
        """Return what is sent to the caller."""
        end = self.exit
        return {
            "ok": end.code == 0 and end.reason is None,
            "exit_code": end.code,
            "signal": end.signal,
            "ended_by": _REASONS.get(end.reason, end.reason) if end.reason else None,
            "message": end.message,
            "stdout": self.out,
            "stderr": self.err,
            "truncated": self.cut,
            "seconds": round(end.duration, 3),
        }


async def execute(processes: Processes, token: str, command: Command, redactor: Redactor) -> FinishedAction:
    """Run the command, or adopt it if the token is known. Cancelling stops it with all its children."""
    kept = command.limits.kept_bytes
    tails = {"out": _Tail(redactor, kept), "err": _Tail(redactor, kept)}
    items = cast("Any", processes.run(token, command))
    ended: Exit | None = None
    async with aclosing(items):
        async for item in items:
            if isinstance(item, Chunk):
                tails[item.stream].feed(item.data)
            else:
                ended = item
    assert ended is not None
    out, err = tails["out"], tails["err"]
    return FinishedAction(ended, out.text(), err.text(), out.cut or err.cut)


class _Tail:
    """The last bytes of a stream; as text, they are without secrets."""

    def __init__(self, redactor: Redactor, kept: int) -> None:
        self._redactor = redactor
        self._kept = kept
        self._data = b""
        self.cut = False

    def feed(self, data: bytes) -> None:
        """Append a chunk."""
        whole = self._data + data
        self.cut = self.cut or len(whole) > self._kept
        self._data = whole[max(0, len(whole) - self._kept) :]

    def text(self) -> str:
        """Return what was kept, as text."""
        data = self._data.partition(b"\n")[2] or self._data if self.cut else self._data
        return self._redactor.text(data.decode("utf-8", "replace"))


def _is_encodable(value: str) -> bool:
    try:
        return b"\0" not in value.encode()
    except UnicodeEncodeError:
        return False
