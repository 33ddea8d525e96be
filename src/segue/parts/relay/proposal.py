"""What a person is asked to allow: the whole command, every character visible, with a digest of all of it.

An approval names the digest of what was shown. It counts for a command with this digest and for no other.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Protocol

from msgspec import Struct

from segue.system.process.processes import Command

_SIMPLE = re.compile(r"[\w@%+=:,./-]+", re.ASCII)


class Proposal(Struct, frozen=True):
    """An action that is to be allowed, as it will run."""

    action: str
    argv: tuple[str, ...]
    folder: str

    @classmethod
    def of(cls, action: str, command: Command) -> Proposal:
        """Return a command as people see it."""
        return cls(action, tuple(command.argv), str(command.cwd))

    @property
    def text(self) -> str:
        """The question, on one line."""
        words = " ".join(map(show_argument, self.argv))
        return f"Run {self.action}: {words} (in {show_argument(self.folder)})?"

    @property
    def digest(self) -> str:
        """The digest of everything that is shown."""
        shown = json.dumps([self.action, self.argv, self.folder])
        return hashlib.sha256(shown.encode()).hexdigest()


class Ask(Protocol):
    """Asks the user whether an action may run."""

    @property
    def longest(self) -> int:
        """The most characters that can be shown in full."""
        ...

    async def __call__(self, proposal: Proposal) -> str | None:
        """Return the digest of what the user allowed; None if they said no, or nothing in time."""
        ...


def show_argument(argument: str) -> str:
    """Return an argument so that it cannot be mistaken: quoted unless it is simple, nothing invisible."""
    if _SIMPLE.fullmatch(argument):
        return argument
    return '"' + "".join(map(_show_letter, argument)) + '"'


def _show_letter(letter: str) -> str:
    if letter in '"\\':
        return f"\\{letter}"
    if letter.isprintable():
        return letter
    return f"\\u{ord(letter):04x}" if ord(letter) < 0x10000 else f"\\U{ord(letter):08x}"
