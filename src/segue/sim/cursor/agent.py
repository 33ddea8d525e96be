"""A stand-in for Cursor's `agent` executable: its flags, gates, formats, exit codes and known defects.

It needs the standard library alone, so that it starts fast, and edits real files. `segue sim bin` puts it
on the PATH; docs/rehearsing.md has its script, its variables and its faults.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import sys
import time
import uuid
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import NoReturn

if not __package__:  # run by path: what stands beside this file must be found
    sys.path.append(str(Path(__file__).resolve().parents[3]))

from segue.sim.cursor.flags import Flags, Refused, read_flags
from segue.sim.cursor.permissions import permitted, write_defaults
from segue.sim.cursor.script import Script, load
from segue.sim.cursor.stream import Stream

VERSION = "2026.09.28-64d2043"
MODELS = {"auto": "Auto", "composer-2.5": "Composer 2.5", "gpt-5.5": "GPT-5.5"}

_TASK = re.compile(r"<<<task ([0-9a-f]+)>>>\n(.*?)\n<<<end of task \1>>>", re.DOTALL)


def main(argv: list[str] | None = None, home: Path | None = None) -> int:
    """Behave like `agent` with these arguments; `home` is where launches are counted without a script."""
    signal.signal(signal.SIGINT, _interrupted)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="replace", newline="\n")  # type: ignore[union-attr]
    try:
        flags = read_flags(sys.argv[1:] if argv is None else argv)
        script = load(home)
        if flags.version:
            return _answer(str(script.settings.get("version", VERSION)))
        command = _COMMANDS.get(flags.words[0]) if flags.words else None
        if command and not flags.print_mode:
            return command(script, flags)
        return Launch(flags, script).run()
    except Refused as error:
        sys.stderr.write(f"{error}\n")
        return 1


def _interrupted(*_: object) -> NoReturn:
    sys.stderr.write("Aborting operation...\n")
    sys.exit(130)


def _answer(text: str) -> int:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
    return 0


def _status(script: Script, flags: Flags) -> int:
    """Says so, with exit code 0, also when nobody is logged in."""
    logged_in = script.logged_in or bool(flags.api_key)
    if flags.form_of_answer != "json":
        return _answer("✓ Logged in as rehearsal@localhost" if logged_in else "Not logged in")
    user = {"userInfo": {"email": "rehearsal@localhost"}} if logged_in else {"message": "Not logged in"}
    state = "authenticated" if logged_in else "unauthenticated"
    return _answer(json.dumps({"status": state, "isAuthenticated": logged_in, **user}))


def _models(script: Script, _flags: Flags) -> int:
    lines = [f"{slug} - {name}" for slug, name in _known_models(script).items()]
    return _answer("\n".join(["Available models", "", *lines]))


def _known_models(script: Script) -> dict[str, str]:
    return {**MODELS, **script.settings.get("models", {})}


_COMMANDS: dict[str, Callable[[Script, Flags], int]] = {
    "status": _status,
    "whoami": _status,
    "models": _models,
    "about": lambda script, _flags: _answer(f"CLI Version         {script.settings.get('version', VERSION)}"),
    "create-chat": lambda _script, _flags: _answer(str(uuid.uuid4())),
}


class Launch:
    """One headless launch, from the gates to the exit code."""

    def __init__(self, flags: Flags, script: Script) -> None:
        self.flags = flags
        self.script = script
        self.mode = flags.mode or "agent"
        self.root = Path(flags.workspace or Path.cwd())
        self.number = script.log.begin(flags.argv, self.mode)
        self.entry = script.entry(self.number, self.mode, lambda: self.prompt)
        self.faults = script.faults(self.entry)
        self.session = ""

    @cached_property
    def prompt(self) -> str:
        """The positional words or, when there are none, stdin to its end."""
        if self.flags.words:
            return " ".join(self.flags.words)
        return sys.stdin.buffer.read().decode("utf-8", "replace")

    def run(self) -> int:
        """Pass the gates, work, print; faults come where the real ones were seen."""
        if "hang_before_init" in self.faults:
            _hang()
        self._gates()
        if "empty" in self.faults:
            return 0
        prompt = "" if "ignore_stdin" in self.faults else self.prompt
        turn = self.script.log.turn(self.session, prompt)
        self.names = {"turn": str(turn), "launch": str(self.number), "mode": self.mode}
        self.names |= {name: os.environ.get(f"SEGUE_{name.upper()}", "1") for name in ("task", "attempt")}
        return self._played(prompt)

    def _gates(self) -> None:
        write_defaults()
        # Those who share a configuration folder race; a folder of one's own is safe.
        if "config_race" in self.faults and "CURSOR_CONFIG_DIR" not in os.environ:
            path = Path.home() / ".cursor" / "cli-config.json"
            raise Refused(f"Error: ENOENT: no such file or directory, rename '{path}.tmp' -> '{path}'")
        if "bad_key" in self.faults:
            raise Refused("\x1b[33mWarning: The provided API key is invalid.\x1b[0m")
        if not (self.script.logged_in or self.flags.api_key):
            raise Refused(
                "Error: Authentication required. Please run 'agent login' first, or set CURSOR_API_KEY."
            )
        if not self.root.is_dir():
            raise Refused(f"Error: Workspace path does not exist: {self.root}")
        if not (self.flags.trust or self.flags.force):
            raise Refused(f"Workspace Trust Required\n\nDo you trust {self.root}? Pass --trust to go on.")
        models = _known_models(self.script)
        if self.flags.model and self.flags.model not in models:
            known = ", ".join(models)
            raise Refused(f"Cannot use this model: {self.flags.model}. Available models: {known}")
        self.session = self._session()

    def _session(self) -> str:
        """A known session goes on; an unknown but well-formed id simply begins one."""
        wanted = self.flags.resume
        if wanted == "-1":
            wanted = self.script.log.last_session()
        if not wanted:
            return str(uuid.uuid4())
        try:
            return str(uuid.UUID(wanted))
        except ValueError:
            raise Refused(f"Failed to claim persistent session {wanted}: invalid id") from None

    def _played(self, prompt: str) -> int:
        entry, models = self.entry, _known_models(self.script)
        shape = entry.get("shape", "current")
        model = models[self.flags.model or "auto"]
        stream = Stream(self.flags.output_format, self.flags.partial, shape, self.session, model)
        stream.init("env" if self.flags.api_key else "login", str(self.root), prompt)
        stream.think(entry.get("thinking", 3))
        stream.odd_lines(self.faults)
        time.sleep(entry.get("delay", 0))
        if "hang" in self.faults:
            stream.start_tool("shell", {"command": "sleep 600", "timeout": 600_000})
            _hang()
        if "quota" in self.faults:
            sys.stdout.write("T: [resource_exhausted] Error\n")
            raise Refused("[resource_exhausted] Error")
        self._work(stream, prompt)
        return self._end(stream, prompt)

    def _work(self, stream: Stream, prompt: str) -> None:
        self._shell(stream)
        if self.mode == "plan":
            self._plan(stream, prompt)
        elif self.mode == "ask":
            answer = self.entry.get("say", "You asked: {question}")
            question = prompt.strip().splitlines()[0][:80] if prompt.strip() else "nothing"
            stream.say(self._filled(answer).replace("{question}", question), last=True)
        else:
            stream.say("I will do it now.")
            edits = self.entry.get("write")
            for name, text in (self._note(prompt) if edits is None else edits).items():
                self._write(stream, self._filled(name), self._filled(text))
            stream.say(
                self._filled(self.entry.get("say", "Done: I changed what the task asks for.")), last=True
            )

    def _plan(self, stream: Stream, prompt: str) -> None:
        digest = _digest(prompt)
        text = self._filled(self.entry.get("plan", f"# Plan {digest}\n\n1. Make the change.\n2. Check it.\n"))
        if self.entry.get("plan_as_text"):
            stream.say(text, last=True)
            return
        stream.query("createPlanRequestQuery")
        args = {"plan": text, "name": f"Plan {digest}", "overview": "A short plan.", "todos": []}
        stream.tool("createPlan", args, "success", {}, planUri="")
        stream.say(self._filled(self.entry.get("say", "I have made a plan.")), last=True)

    def _shell(self, stream: Stream) -> None:
        for asked in self.entry.get("shell", []):
            given = {"command": asked} if isinstance(asked, str) else asked
            command, code = given["command"], given.get("exit_code", 0)
            where = {"command": command, "workingDirectory": str(self.root)}
            if not permitted(command, self.flags.force, self.root):
                value = {**where, "reason": "", "isReadonly": False}
                stream.tool("shell", {**where, "timeout": 30_000}, "rejected", value)
                continue
            value = {**where, "exitCode": code, "stdout": given.get("stdout", ""), "stderr": ""}
            stream.tool("shell", {**where, "timeout": 30_000}, "failure" if code else "success", value)

    def _note(self, prompt: str) -> dict[str, str]:
        """One small edit per task; another launch for the same task changes the file once more."""
        name = f"cursor-{_digest(prompt)}.md"
        path = self.root / name
        before = path.read_text("utf-8") if path.is_file() else "# A rehearsal\n\n"
        return {name: before + f"Changed by launch {self.number}, session {self.session}.\n"}

    def _write(self, stream: Stream, name: str, text: str) -> None:
        root = self.root.resolve()
        path = (root / name).resolve()
        if root not in path.parents or root / ".git" in (path, *path.parents):
            raise Refused(f"sim: {name!r} is not a file of the workspace")
        existed = path.exists()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8", newline="")
        if existed:
            value = {"path": str(path), "linesAdded": 1, "linesRemoved": 1, "afterFullFileContent": text}
            stream.tool("edit", {"path": str(path), "streamContent": text}, "success", value)
        else:
            value = {"path": str(path), "linesCreated": text.count("\n"), "fileSize": len(text.encode())}
            stream.tool("write", {"path": str(path), "fileText": text}, "success", value)

    def _end(self, stream: Stream, prompt: str) -> int:
        usage = {"inputTokens": len(prompt) // 4, "outputTokens": 20}
        usage |= {"cacheReadTokens": 0, "cacheWriteTokens": 0} | self.entry.get("usage", {})
        if "orphan" in self.faults:
            from segue.sim.orphan_child import leave_orphan

            leave_orphan()
        for name, pipe in (("stdout", sys.stdout), ("stderr", sys.stderr)):
            if name in self.entry:
                pipe.write(self._filled(self.entry[name]) + "\n")
                pipe.flush()
        if "no_result" not in self.faults:
            shown = None if "no_usage" in self.faults else usage
            stream.finish(shown, "truncated" in self.faults, "error_result" in self.faults)
        if "hang_after_result" in self.faults:
            _hang()
        if self.flags.words:
            sys.stdin.buffer.read()  # a known defect: with a positional prompt it waits for stdin to close
        return int(self.entry.get("exit_code", 0))

    def _filled(self, text: str) -> str:
        for name, value in self.names.items():
            text = text.replace("{" + name + "}", value)
        return text


def _digest(prompt: str) -> str:
    """Of the task's text when the prompt has one: the rest differs from launch to launch."""
    found = _TASK.search(prompt)
    return hashlib.sha256((found[2] if found else prompt).encode("utf-8", "replace")).hexdigest()[:12]


def _hang() -> NoReturn:
    while True:
        time.sleep(600)


if __name__ == "__main__":
    sys.exit(main())
