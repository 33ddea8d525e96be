"""Asks the user whether an action may run, on the relay's terminal or in a dialog; silence means no."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import html
import json
import os
import re
import sys
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from segue.domain.errors import ToolMissing
from segue.system.process.processes import Command, capture, child_environment
from segue.system.programs import find

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


_SESSION = ("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS")
_APPLE_SCRIPT = (
    "on run argv",
    'set said to display dialog (item 1 of argv) with title "Segue" buttons {"No", "Yes"} default button 1',
    'if button returned of said is not "Yes" then error number 1',
    "end run",
)
_DIALOG = """
Add-Type -AssemblyName System.Windows.Forms
$said = [System.Windows.Forms.MessageBox]::Show($env:SEGUE_QUESTION, 'Segue', 'YesNo', 'Question', 'Button2')
if ($said -ne 'Yes') { exit 1 }
"""


class TerminalPrompt:
    """Asks on the terminal in which the relay was started, one question at a time."""

    longest = 8000

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._lock = asyncio.Lock()

    async def __call__(self, proposal: Proposal) -> str | None:
        """Return the digest of the proposal if the user types y."""
        async with self._lock:
            _discard_typed_ahead()
            sys.stderr.write(f"\a{proposal.text} [y/N] ")
            sys.stderr.flush()
            try:
                async with asyncio.timeout(self._timeout):
                    said = await _read_line()
            except TimeoutError:
                sys.stderr.write("\nNo answer. The action is refused.\n")
                return None
            return proposal.digest if said.strip().lower() in ("y", "yes") else None


def has_terminal() -> bool:
    """Return whether somebody can be asked on this terminal."""
    return sys.platform != "win32" and sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def _discard_typed_ahead() -> None:
    """Discard earlier input: an answer counts only if it was typed after the question."""
    if sys.platform != "win32":
        import termios

        with contextlib.suppress(termios.error):
            termios.tcflush(sys.stdin, termios.TCIFLUSH)


async def _read_line() -> str:
    loop, fd = asyncio.get_running_loop(), sys.stdin.fileno()
    typed: asyncio.Future[str] = loop.create_future()

    def read() -> None:
        loop.remove_reader(fd)
        if not typed.done():
            typed.set_result(os.read(fd, 1024).decode("utf-8", "replace"))

    loop.add_reader(fd, read)
    try:
        return await typed
    finally:
        loop.remove_reader(fd)


class DesktopDialog:
    """Asks in a desktop dialog; the question is passed as an argument or a variable, never as code."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout

    @property
    def longest(self) -> int:
        """The most characters that the dialog shows in full: notifications are small."""
        shown = _dialog("", 1)
        return 200 if shown and shown[0][0] == "notify-send" else 1500

    async def __call__(self, proposal: Proposal) -> str | None:
        """Return the digest of the proposal if the user clicks Yes."""
        dialog = _dialog(proposal.text, self._timeout)
        if dialog is None:
            return None
        argv, variables, yes = dialog
        env = child_environment(_SESSION, variables)
        try:
            done = await capture(argv, Path.home(), env, self._timeout, limit=4096)
        except (TimeoutError, ToolMissing, OSError):
            return None
        return proposal.digest if done.exit_code == 0 and done.out.strip() == yes else None


def has_desktop() -> bool:
    """Return whether a program that shows dialogs is installed."""
    return _dialog("", 1) is not None


def _dialog(question: str, timeout: float) -> tuple[list[str], dict[str, str], bytes] | None:
    """Return the command that asks, its variables, and what it prints for Yes."""
    if sys.platform == "darwin":
        script = [word for line in _APPLE_SCRIPT for word in ("-e", line)]
        return ["osascript", *script, f"Segue: {question}"], {}, b""
    if sys.platform == "win32":
        encoded = base64.b64encode(_DIALOG.encode("utf-16-le")).decode()
        return ["powershell", "-NoProfile", "-EncodedCommand", encoded], {"SEGUE_QUESTION": question}, b""
    question = question.replace("\\", "\\\\")  # both programs below read a backslash as an escape
    if zenity := find("zenity"):
        words = ["--question", "--no-markup", "--title=Segue", f"--timeout={int(timeout) or 1}"]
        return [zenity, *words, f"--text={question}"], {}, b""
    if notify := find("notify-send"):
        words = ["--app-name=Segue", "--urgency=critical", "--wait", "--action=yes=Yes", "--action=no=No"]
        return [notify, *words, "--", "Segue asks", html.escape(question, quote=False)], {}, b"yes"
    return None
