"""A stand-in for Cursor's `agent` executable: its flags, checks, formats, exit codes and known defects.

It imports only the standard library, so that it starts fast, and edits real files. `segue sim bin` puts it
on the PATH; `segue help rehearsing` describes its script, its variables and its faults.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import time
import uuid
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import NoReturn

if not __package__:  # run by path: the package must be found
    sys.path.append(str(Path(__file__).resolve().parents[4]))

from segue.parts.sim.cursor.flags import CursorFlags, CursorRefusal, is_permitted, read_flags, write_defaults
from segue.parts.sim.cursor.script import (
    count_launch,
    count_turn,
    find_last_session,
    is_logged_in,
    load_script,
)
from segue.parts.sim.cursor.stream import CursorOutput
from segue.sim.script import BadScript, ProgramScript, fill, find_file, hang, read_block

VERSION = "2026.09.28-64d2043"
MODELS = {"auto": "Auto", "composer-2.5": "Composer 2.5", "gpt-5.5": "GPT-5.5"}


def main(argv: list[str] | None = None, home: Path | None = None) -> int:
    """Behave like `agent` with these arguments; without a script, launches are counted in `home`."""
    signal.signal(signal.SIGINT, _abort)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="replace", newline="\n")  # type: ignore[union-attr]
    try:
        flags = read_flags(sys.argv[1:] if argv is None else argv)
        script = load_script(home)
        if flags.version:
            return _print(str(script.settings.get("version", VERSION)))
        command = _COMMANDS.get(flags.words[0]) if flags.words else None
        if command and not flags.print_mode:
            return command(script, flags)
        return CursorLaunch(flags, script).run()
    except CursorRefusal as error:
        sys.stderr.write(f"{error}\n")
    except BadScript as error:
        sys.stderr.write(f"sim: {error}\n")
    return 1


def _abort(*_: object) -> NoReturn:
    sys.stderr.write("Aborting operation...\n")
    sys.exit(130)


def _print(text: str) -> int:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
    return 0


def _status(script: ProgramScript, flags: CursorFlags) -> int:
    """End with exit code 0 even if nobody is logged in."""
    logged_in = is_logged_in(script) or bool(flags.api_key)
    if flags.status_format != "json":
        return _print("✓ Logged in as rehearsal@localhost" if logged_in else "Not logged in")
    user = {"userInfo": {"email": "rehearsal@localhost"}} if logged_in else {"message": "Not logged in"}
    state = "authenticated" if logged_in else "unauthenticated"
    return _print(json.dumps({"status": state, "isAuthenticated": logged_in, **user}))


def _models(script: ProgramScript, _flags: CursorFlags) -> int:
    lines = [f"{slug} - {name}" for slug, name in _known_models(script).items()]
    return _print("\n".join(["Available models", "", *lines]))


def _known_models(script: ProgramScript) -> dict[str, str]:
    return {**MODELS, **script.settings.get("models", {})}


_COMMANDS: dict[str, Callable[[ProgramScript, CursorFlags], int]] = {
    "status": _status,
    "whoami": _status,
    "models": _models,
    "about": lambda script, _flags: _print(f"CLI Version         {script.settings.get('version', VERSION)}"),
    "create-chat": lambda _script, _flags: _print(str(uuid.uuid4())),
}


class CursorLaunch:
    """One headless launch, from the first checks to the exit code."""

    def __init__(self, flags: CursorFlags, script: ProgramScript) -> None:
        self.flags = flags
        self.script = script
        self.mode = flags.mode or "agent"
        self.root = Path(flags.workspace or Path.cwd())
        self.number = count_launch(script.state, flags.argv, self.mode)
        self.entry = script.pick(self.number, self.mode, lambda: self.prompt)
        self.faults = script.list_faults(self.entry)
        self.session = ""

    @cached_property
    def prompt(self) -> str:
        """The positional words or, if there are none, all of stdin."""
        if self.flags.words:
            return " ".join(self.flags.words)
        return sys.stdin.buffer.read().decode("utf-8", "replace")

    def run(self) -> int:
        """Check, work, print; faults occur where the real ones were seen."""
        if "hang_before_init" in self.faults:
            hang()
        self._check()
        if "empty" in self.faults:
            return 0
        prompt = "" if "ignore_stdin" in self.faults else self.prompt
        turn = count_turn(self.script.state, self.session, prompt)
        self.names = {"turn": str(turn), "launch": str(self.number), "mode": self.mode}
        self.names |= {name: os.environ.get(f"SEGUE_{name.upper()}", "1") for name in ("task", "attempt")}
        return self._play(prompt)

    def _check(self) -> None:
        write_defaults()
        # Launches that share a configuration folder race; a folder of its own makes a launch safe.
        if "config_race" in self.faults and "CURSOR_CONFIG_DIR" not in os.environ:
            path = Path.home() / ".cursor" / "cli-config.json"
            raise CursorRefusal(f"Error: ENOENT: no such file or directory, rename '{path}.tmp' -> '{path}'")
        if "bad_key" in self.faults:
            raise CursorRefusal("\x1b[33mWarning: The provided API key is invalid.\x1b[0m")
        if not (is_logged_in(self.script) or self.flags.api_key):
            raise CursorRefusal(
                "Error: Authentication required. Please run 'agent login' first, or set CURSOR_API_KEY."
            )
        if not self.root.is_dir():
            raise CursorRefusal(f"Error: Workspace path does not exist: {self.root}")
        if not (self.flags.trust or self.flags.force):
            raise CursorRefusal(f"Workspace Trust Required\n\nDo you trust {self.root}? Pass --trust.")
        models = _known_models(self.script)
        if self.flags.model and self.flags.model not in models:
            known = ", ".join(models)
            raise CursorRefusal(f"Cannot use this model: {self.flags.model}. Available models: {known}")
        self.session = self._choose_session()

    def _choose_session(self) -> str:
        """Continue a known session; an unknown but well-formed id simply starts one."""
        wanted = self.flags.resume
        if wanted == "-1":
            wanted = find_last_session(self.script.state)
        if not wanted:
            return str(uuid.uuid4())
        try:
            return str(uuid.UUID(wanted))
        except ValueError:
            raise CursorRefusal(f"Failed to claim persistent session {wanted}: invalid id") from None

    def _play(self, prompt: str) -> int:
        entry, models = self.entry, _known_models(self.script)
        shape = entry.get("shape", "current")
        model = models[self.flags.model or "auto"]
        stream = CursorOutput(self.flags.output_format, self.flags.partial, shape, self.session, model)
        stream.start("env" if self.flags.api_key else "login", str(self.root), prompt)
        stream.think(entry.get("thinking", 3))
        stream.print_odd_lines(self.faults)
        time.sleep(entry.get("delay", 0))
        if "hang" in self.faults:
            stream.start_tool("shell", {"command": "sleep 600", "timeout": 600_000})
            hang()
        if "quota" in self.faults:
            sys.stdout.write("T: [resource_exhausted] Error\n")
            raise CursorRefusal("[resource_exhausted] Error")
        self._work(stream, prompt)
        return self._end(stream, prompt)

    def _work(self, stream: CursorOutput, prompt: str) -> None:
        self._shell(stream)
        if self.mode == "plan":
            self._plan(stream, prompt)
        elif self.mode == "ask":
            answer = self.entry.get("say", "You asked: {question}")
            question = prompt.strip().splitlines()[0][:80] if prompt.strip() else "nothing"
            stream.say(self._fill(answer).replace("{question}", question), last=True)
        else:
            stream.say("I will do it now.")
            edits = self.entry.get("write")
            for name, text in (self._default_edit(prompt) if edits is None else edits).items():
                self._write(stream, self._fill(name), self._fill(text))
            stream.say(
                self._fill(self.entry.get("say", "Done: I changed what the task asks for.")), last=True
            )

    def _plan(self, stream: CursorOutput, prompt: str) -> None:
        digest = _digest(prompt)
        text = self._fill(self.entry.get("plan", f"# Plan {digest}\n\n1. Make the change.\n2. Check it.\n"))
        if self.entry.get("plan_as_text"):
            stream.say(text, last=True)
            return
        stream.ask_user("createPlanRequestQuery")
        args = {"plan": text, "name": f"Plan {digest}", "overview": "A short plan.", "todos": []}
        stream.use_tool("createPlan", args, "success", {}, planUri="")
        stream.say(self._fill(self.entry.get("say", "I have made a plan.")), last=True)

    def _shell(self, stream: CursorOutput) -> None:
        for item in self.entry.get("shell", []):
            given = {"command": item} if isinstance(item, str) else item
            command, code = given["command"], given.get("exit_code", 0)
            where = {"command": command, "workingDirectory": str(self.root)}
            if not is_permitted(command, self.flags.force, self.root):
                value = {**where, "reason": "", "isReadonly": False}
                stream.use_tool("shell", {**where, "timeout": 30_000}, "rejected", value)
                continue
            value = {**where, "exitCode": code, "stdout": given.get("stdout", ""), "stderr": ""}
            stream.use_tool("shell", {**where, "timeout": 30_000}, "failure" if code else "success", value)

    def _default_edit(self, prompt: str) -> dict[str, str]:
        """Return one small edit per task; another launch for the same task changes the file again."""
        name = f"cursor-{_digest(prompt)}.md"
        path = self.root / name
        before = path.read_text("utf-8") if path.is_file() else "# A rehearsal\n\n"
        return {name: before + f"Changed by launch {self.number}, session {self.session}.\n"}

    def _write(self, stream: CursorOutput, name: str, text: str) -> None:
        path = find_file(self.root, name)
        existed = path.exists()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8", newline="")
        if existed:
            value = {"path": str(path), "linesAdded": 1, "linesRemoved": 1, "afterFullFileContent": text}
            stream.use_tool("edit", {"path": str(path), "streamContent": text}, "success", value)
        else:
            value = {"path": str(path), "linesCreated": text.count("\n"), "fileSize": len(text.encode())}
            stream.use_tool("write", {"path": str(path), "fileText": text}, "success", value)

    def _end(self, stream: CursorOutput, prompt: str) -> int:
        usage = {"inputTokens": len(prompt) // 4, "outputTokens": 20}
        usage |= {"cacheReadTokens": 0, "cacheWriteTokens": 0} | self.entry.get("usage", {})
        if "orphan" in self.faults:
            from segue.sim.orphan_child import leave_orphan

            leave_orphan()
        for name, pipe in (("stdout", sys.stdout), ("stderr", sys.stderr)):
            if name in self.entry:
                pipe.write(self._fill(self.entry[name]) + "\n")
                pipe.flush()
        if "no_result" not in self.faults:
            shown = None if "no_usage" in self.faults else usage
            stream.finish(shown, "truncated" in self.faults, "error_result" in self.faults)
        if "hang_after_result" in self.faults:
            hang()
        if self.flags.words:
            sys.stdin.buffer.read()  # known defect: with a positional prompt it waits for stdin to close
        return int(self.entry.get("exit_code", 0))

    def _fill(self, text: str) -> str:
        return fill(text, self.names)


def _digest(prompt: str) -> str:
    """Hash the task's text if the prompt has one: the rest differs from launch to launch."""
    text = read_block("task", prompt) or prompt
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]


if __name__ == "__main__":
    sys.exit(main())
