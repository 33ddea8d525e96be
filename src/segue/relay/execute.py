"""Runs one action under the supervisor, which ends it with all its children, also when the relay is gone."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from segue.domain.job import Limits
from segue.relay.options import ActionSettings
from segue.system.process.processes import Chunk, Command, Exit, Processes, child_environment
from segue.system.redact import Redactor

_REASONS = {"wall": "timeout", "output": "output", "ended": "stopped"}
"""How the supervisor's reasons are called in answers; further ones keep their names."""


@dataclass(frozen=True, slots=True)
class Ran:
    """How an action ended and the end of what it printed."""

    exit: Exit
    out: str
    err: str
    cut: bool

    @property
    def lost(self) -> bool:
        """Whether nobody saw how it ended."""
        return self.exit.reason == "lost"

    def body(self) -> dict[str, Any]:
        """What the caller is told."""
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


def job_of(action: ActionSettings, argv: list[str]) -> Command:
    """The command for the supervisor: no input, and silence is no reason to end it."""
    limits = Limits(action.timeout, action.timeout, action.grace, action.printed_bytes, action.output_bytes)
    env = child_environment(action.pass_env, action.env)
    return Command(tuple(argv), Path(action.cwd).expanduser(), env, b"", limits)


async def execute(processes: Processes, token: str, command: Command, redactor: Redactor) -> Ran:
    """Run the command, or adopt it when the token is known. Cancelling this ends it with all its children."""
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
    return Ran(ended, out.text(), err.text(), out.cut or err.cut)


class _Tail:
    """The last bytes of a stream, without secrets."""

    def __init__(self, redactor: Redactor, kept: int) -> None:
        self._redacted = redactor.stream()
        self._kept = kept
        self._data = b""
        self.cut = False

    def feed(self, data: bytes) -> None:
        """Take a piece."""
        self._add(self._redacted.feed(data))

    def text(self) -> str:
        """All that is kept, as text."""
        self._add(self._redacted.close())
        return self._data.decode("utf-8", "replace")

    def _add(self, data: bytes) -> None:
        whole = self._data + data
        self.cut = self.cut or len(whole) > self._kept
        self._data = whole[len(whole) - self._kept :] if len(whole) > self._kept else whole
