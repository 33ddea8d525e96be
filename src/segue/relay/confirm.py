"""Asks the user whether an action may run: on the relay's terminal or by a dialog; silence means no."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import shutil
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from segue.domain.errors import ToolMissing
from segue.system.process.processes import capture, child_environment

Ask = Callable[[str], Awaitable[bool]]
"""Puts a question to the user; False also when there is no answer in time."""

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


class Terminal:
    """Asks on the terminal the relay was started in, one question at a time."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._turn = asyncio.Lock()

    async def __call__(self, question: str) -> bool:
        """Whether the user types y."""
        async with self._turn:
            _forget_typed_ahead()
            sys.stderr.write(f"\a{question} [y/N] ")
            sys.stderr.flush()
            try:
                async with asyncio.timeout(self._timeout):
                    said = await _typed_line()
            except TimeoutError:
                sys.stderr.write("\nNo answer: refused.\n")
                return False
            return said.strip().lower() in ("y", "yes")


def has_terminal() -> bool:
    """Whether somebody can be asked here."""
    return sys.platform != "win32" and sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def _forget_typed_ahead() -> None:
    """An answer counts only if it was typed after the question."""
    if sys.platform != "win32":
        import termios

        with contextlib.suppress(termios.error):
            termios.tcflush(sys.stdin, termios.TCIFLUSH)


async def _typed_line() -> str:
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


class Desktop:
    """Asks by a dialog of the desktop; the question travels as an argument or a variable, never as code."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout

    async def __call__(self, question: str) -> bool:
        """Whether the user clicks on yes."""
        found = _dialog(question, self._timeout)
        if found is None:
            return False
        argv, variables, yes = found
        env = child_environment(_SESSION, variables)
        try:
            done = await capture(argv, Path.home(), env, self._timeout, limit=4096)
        except (TimeoutError, ToolMissing, OSError):
            return False
        return done.exit_code == 0 and done.out.strip() == yes


def has_desktop() -> bool:
    """Whether there is a program that can ask."""
    return _dialog("", 1) is not None


def _dialog(question: str, timeout: float) -> tuple[list[str], dict[str, str], bytes] | None:
    """The command that asks, its variables, and what it prints for yes."""
    if sys.platform == "darwin":
        script = [word for line in _APPLE_SCRIPT for word in ("-e", line)]
        return ["osascript", *script, f"Segue: {question}"], {}, b""
    if sys.platform == "win32":
        encoded = base64.b64encode(_DIALOG.encode("utf-16-le")).decode()
        return ["powershell", "-NoProfile", "-EncodedCommand", encoded], {"SEGUE_QUESTION": question}, b""
    if shutil.which("zenity"):
        words = ["--question", "--no-markup", "--title=Segue", f"--timeout={int(timeout) or 1}"]
        return ["zenity", *words, f"--text={question}"], {}, b""
    if shutil.which("notify-send"):
        words = ["--app-name=Segue", "--urgency=critical", "--wait", "--action=yes=Yes", "--action=no=No"]
        return ["notify-send", *words, "--", "Segue asks", _escaped(question)], {}, b"yes"
    return None


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
