"""A stand-in for Cursor's `agent` program: its flags, checks, formats, exit codes and known defects.

`write_cli(folder, script)` writes it as `agent` and `cursor-agent`. With `--port N` or `--script FILE`,
`python -m tests.fakes.cursor_cli` writes both into a new folder and prints that: a program listens on no
port. With any other arguments this module is the program itself; FAKE_AGENT_SCRIPT names its script.

A script is TOML or JSON: `logged_in` (false: a key is needed), `models`, `version`, `faults` of every launch,
and `[[on]]`. The first entry whose `launch`, `mode`, `task`, `phase`, `attempt` and `contains` fit is played:
`thinking`, `delay`, `shell`, `write`, `plan`, `plan_as_text`, `say`, `usage`, `stdout`, `stderr`,
`exit_code`, `faults`. The file `SCRIPT.state` logs launches and turns, one JSON object per line.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

SCRIPT = "FAKE_AGENT_SCRIPT"
VERSION = "2026.09.28-64d2043"
MODELS = {"auto": "Auto", "composer-2.5": "Composer 2.5", "gpt-5.5": "GPT-5.5"}
FAULTS = {
    *("hang_before_init", "hang", "hang_after_result", "ignore_stdin", "empty", "no_result", "truncated"),
    *("error_result", "not_json", "unknown_event", "bad_utf8", "long_line", "orphan", "quota", "bad_key"),
}
_LONG = 10 * 1024 * 1024


def write_cli(folder: Path, script: Path | None = None) -> Path:
    """Write `agent` and `cursor-agent` into the folder and return its script, which need not exist."""
    folder.mkdir(parents=True, exist_ok=True)
    script = (script or folder / "agent.toml").absolute()
    command = f'{shlex.quote(sys.executable)} -IS {shlex.quote(__file__)} "$@"'
    for name in ("agent", "cursor-agent"):
        (folder / name).write_text(f"#!/bin/sh\n{SCRIPT}={shlex.quote(str(script))} exec {command}\n")
        (folder / name).chmod(0o755)
    return script


class Refusal(Exception):
    """The program prints the reason on stderr and ends with exit code 1."""


class Script:
    """What the program does, and the log of its launches."""

    def __init__(self, path: Path | None) -> None:
        self._state = path.with_name(f"{path.name}.state") if path else None
        self.settings = _read_script(path) if path and path.exists() else {}

    @property
    def models(self) -> dict[str, str]:
        return {**MODELS, **self.settings.get("models", {})}

    @property
    def logged_in(self) -> bool:
        return bool(self.settings.get("logged_in", True))

    def log(self, **facts: Any) -> list[dict[str, Any]]:
        """Append a line; return all lines up to it, even if others append at the same time."""
        if self._state is None:
            return [facts]
        fd = os.open(self._state, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(fd, json.dumps(facts).encode() + b"\n")
        end = os.lseek(fd, 0, os.SEEK_CUR)
        os.close(fd)
        return [json.loads(line) for line in self._state.read_bytes()[:end].splitlines()]

    def pick(self, launch: int, mode: str, prompt: str) -> dict[str, Any]:
        """Return the first entry that fits, or an empty one."""
        facts = {"launch": str(launch), "mode": mode}
        facts |= {name: os.environ.get(f"SEGUE_{name.upper()}", "") for name in ("task", "phase", "attempt")}
        for entry in self.settings.get("on", []):
            fits = all(str(entry[name]) == fact for name, fact in facts.items() if name in entry)
            if fits and entry.get("contains", "") in prompt:
                return dict(entry)
        return {}


def _read_script(path: Path) -> dict[str, Any]:
    text = path.read_text("utf-8")
    if path.suffix == ".json":
        return dict(json.loads(text))
    import tomllib  # slow, and most launches have no script

    return tomllib.loads(text)


class Parser(argparse.ArgumentParser):
    """Refuses as the real program does."""

    def error(self, message: str) -> NoReturn:
        raise Refusal(f"error: {message}")


def read_flags(argv: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = Parser(prog="agent", add_help=False, allow_abbrev=False)
    for names in ("-p --print", "-f --force --yolo", "-v --version", "--trust", "--stream-partial-output"):
        parser.add_argument(*names.split(), action="store_true")
    for ignored in ("--approve-mcps", "--auto-review"):
        parser.add_argument(ignored, action="store_true")
    parser.add_argument("--output-format", choices=("text", "json", "stream-json"), default="text")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--mode", choices=("plan", "ask"), default="agent")
    parser.add_argument("--plan", dest="mode", action="store_const", const="plan")
    parser.add_argument("--sandbox", choices=("enabled", "disabled"))
    # Its value is optional: without `=` it swallows the next word, even if that is the prompt.
    parser.add_argument("--resume", nargs="?", const="-1", default="")
    parser.add_argument("--continue", dest="resume", action="store_const", const="-1")
    parser.add_argument("--api-key", default=os.environ.get("CURSOR_API_KEY", ""))
    for name in ("--model", "--workspace", "--add-dir", "--port", "--script"):
        parser.add_argument(name, default="")
    parser.add_argument("words", nargs="*")
    return parser.parse_args(argv)


class Output:
    """Prints one session in the requested format."""

    def __init__(self, flags: argparse.Namespace, session: str) -> None:
        self._form, self._partial = flags.output_format, flags.stream_partial_output
        self._session = session
        self._messages: list[str] = []

    def line(self, kind: str, subtype: str = "", **fields: Any) -> None:
        """Print a line of stream-json."""
        if self._form == "stream-json":
            head = {"type": kind} | ({"subtype": subtype} if subtype else {})
            _print(json.dumps({**head, **fields, "session_id": self._session}) + "\n")

    def say(self, text: str, last: bool = False) -> None:
        """Print a message; with partial output in pieces, then again as a whole."""
        self._messages.append(text)
        whole: dict[str, Any] = {}
        if self._partial:
            for start in range(0, len(text), 12):
                self.line("assistant", message=_message(text[start : start + 12]), timestamp_ms=1)
            whole = {} if last else {"model_call_id": "model-1", "timestamp_ms": 1}
        self.line("assistant", message=_message(text), **whole)

    def use(self, kind: str, args: Any, status: str, value: Any, **more: Any) -> None:
        """Print a tool call that starts and ends with `status`; `more` are siblings of the status."""
        call_id = f"tool_{uuid.uuid4()}\nfc_{uuid.uuid4().hex[:8]}"  # real ones may contain a line break
        for subtype, ending in (("started", {}), ("completed", {"result": {status: value, **more}})):
            call: dict[str, Any] = {f"{kind}ToolCall": {"args": args, **ending}}
            call |= {"toolCallId": call_id, "startedAtMs": "1", "hookAdditionalContexts": []}
            self.line(
                "tool_call", subtype, call_id=call_id, tool_call=call, model_call_id="m", timestamp_ms=1
            )

    def finish(self, usage: dict[str, int], faults: set[str]) -> None:
        """Print the last line: the answer, or the result with all messages."""
        if self._form == "text":
            _print((self._messages[-1] if self._messages else "") + "\n")
            return
        is_error = "error_result" in faults
        text = json.dumps(
            {
                **{"type": "result", "subtype": "error" if is_error else "success", "is_error": is_error},
                **{"duration_ms": 1, "duration_api_ms": 1, "result": "".join(self._messages)},
                **{"session_id": self._session, "request_id": str(uuid.uuid4())},
                "usage": usage,
            }
        )
        _print(text[: len(text) // 2] if "truncated" in faults else text + "\n")


class Launch:
    """One headless launch, from the first checks to the exit code."""

    def __init__(self, argv: list[str], flags: argparse.Namespace, script: Script) -> None:
        self.flags, self.script = flags, script
        self.mode: str = flags.mode
        self.root = Path(flags.workspace or Path.cwd())
        names = sorted(name for name in os.environ if name.startswith(("CURSOR_", "VSCODE_")))
        config = os.environ.get("CURSOR_CONFIG_DIR", "")
        seen = script.log(argv=argv, mode=self.mode, cwd=str(Path.cwd()), env=names, config_dir=config)
        self.number = sum("argv" in one for one in seen)
        self.entry: dict[str, Any] = {}
        self.faults = set(script.settings.get("faults", []))
        self.names = {"launch": str(self.number), "mode": self.mode}
        self.names |= {name: os.environ.get(f"SEGUE_{name.upper()}", "1") for name in ("task", "attempt")}

    def run(self) -> int:
        """Check, work, print; faults occur where the real ones were seen."""
        self.faults |= set(self._pick("").get("faults", []))
        if unknown := self.faults - FAULTS:
            raise Refusal(f"fake: unknown faults: {', '.join(sorted(unknown))}")
        if "hang_before_init" in self.faults:
            _hang()
        session = self._check()
        if "empty" in self.faults:
            return 0
        prompt = " ".join(self.flags.words)
        if not self.flags.words and "ignore_stdin" not in self.faults:
            prompt = sys.stdin.buffer.read().decode("utf-8", "replace")
        self.entry = self._pick(prompt)
        self.faults |= set(self.entry.get("faults", []))
        digest = hashlib.sha256(prompt.encode("utf-8", "replace")).hexdigest()
        seen = self.script.log(session=session, prompt_sha256=digest)
        self.names["turn"] = str(sum(one.get("session") == session for one in seen))
        return self._play(prompt, session)

    def _pick(self, prompt: str) -> dict[str, Any]:
        return self.script.pick(self.number, self.mode, prompt)

    def _check(self) -> str:
        """Pass the gates of the real program, and return the session."""
        _write_defaults()
        if "bad_key" in self.faults:
            raise Refusal("\x1b[33mWarning: The provided API key is invalid.\x1b[0m")
        if not (self.script.logged_in or self.flags.api_key):
            login = "Please run 'agent login' first, or set CURSOR_API_KEY."
            raise Refusal(f"Error: Authentication required. {login}")
        if not self.root.is_dir():
            raise Refusal(f"Error: Workspace path does not exist: {self.root}")
        if not (self.flags.trust or self.flags.force):
            raise Refusal(f"Workspace Trust Required\n\nDo you trust {self.root}? Pass --trust.")
        models = self.script.models
        if self.flags.model and self.flags.model not in models:
            known = ", ".join(models)
            raise Refusal(f"Cannot use this model: {self.flags.model}. Available models: {known}")
        wanted = self.flags.resume
        if wanted == "-1":
            sessions = [one["session"] for one in self.script.log() if "session" in one]
            wanted = sessions[-1] if sessions else ""
        try:  # an unknown but well-formed id simply starts a session
            return str(uuid.UUID(wanted)) if wanted else str(uuid.uuid4())
        except ValueError:
            raise Refusal(f"Failed to claim persistent session {wanted}: invalid id") from None

    def _play(self, prompt: str, session: str) -> int:
        entry, flags = self.entry, self.flags
        output = Output(flags, session)
        source, model = "env" if flags.api_key else "login", self.script.models[flags.model or "auto"]
        facts = {"cwd": str(self.root), "model": model, "permissionMode": "default"}
        output.line("system", "init", apiKeySource=source, **facts)
        output.line("user", message={**_message(prompt), "role": "user"})
        thoughts = entry.get("thinking", 3)
        for number in range(thoughts):
            output.line("thinking", "delta", text=f"thought {number} ", timestamp_ms=1)
        if thoughts:
            output.line("thinking", "completed", timestamp_ms=1)
        self._print_odd_lines(output)
        time.sleep(entry.get("delay", 0))
        if "hang" in self.faults:
            call = {"shellToolCall": {"args": {"command": "sleep 600", "timeout": 600_000}}}
            output.line("tool_call", "started", call_id="tool_open", tool_call=call, timestamp_ms=1)
            _hang()
        if "quota" in self.faults:
            _print("T: [resource_exhausted] Error\n")
            raise Refusal("[resource_exhausted] Error")
        self._work(output, prompt)
        return self._end(output, prompt)

    def _print_odd_lines(self, output: Output) -> None:
        if "not_json" in self.faults:
            _print("w: a warning that is no JSON\n")
        if "unknown_event" in self.faults:
            output.line("telemetry", "ping", payload={"deep": [1, 2, 3]})
        if "bad_utf8" in self.faults:
            text = json.dumps({"type": "assistant", "message": _message("caf@")})
            sys.stdout.buffer.write(text.encode().replace(b"@", b"\xe9\xff") + b"\n")
            sys.stdout.buffer.flush()
        if "long_line" in self.faults:
            value = {"content": "x" * _LONG, "isEmpty": False, "totalLines": 1, "path": "big.txt"}
            output.use("read", {"path": "big.txt"}, "success", value)

    def _work(self, output: Output, prompt: str) -> None:
        for item in self.entry.get("shell", []):
            self._use_shell(output, {"command": item} if isinstance(item, str) else item)
        said = self.entry.get("say")
        if self.mode == "plan":
            self._plan(output, said)
        elif self.mode == "ask":
            question = (prompt.strip().splitlines() or ["nothing"])[0][:80]
            output.say(self._fill(said or f"You asked: {question}") if said != "" else "", last=True)
        else:
            output.say("I will do it now.")
            edits = self.entry.get("write")
            for name, text in (self._default_edit() if edits is None else edits).items():
                self._write(output, self._fill(name), self._fill(text))
            output.say(self._fill(said if said is not None else "Done: I changed the files."), last=True)

    def _plan(self, output: Output, said: str | None) -> None:
        text = self._fill(self.entry.get("plan", "# Plan {launch}\n\n1. Make the change.\n2. Check it.\n"))
        if self.entry.get("plan_as_text"):
            output.say(text, last=True)
            return
        query = "createPlanRequestQuery"
        output.line("interaction_query", "request", query_type=query, query={"id": 1})
        output.line("interaction_query", "response", query_type=query, response={"skipped": True})
        args = {"plan": text, "name": f"Plan {self.number}", "overview": "A short plan.", "todos": []}
        output.use("createPlan", args, "success", {}, planUri="")
        output.say(self._fill(said if said is not None else "I have made a plan."), last=True)

    def _use_shell(self, output: Output, given: Mapping[str, Any]) -> None:
        """Show a command; nothing is run."""
        command, code = given["command"], given.get("exit_code", 0)
        where = {"command": command, "workingDirectory": str(self.root)}
        if not _is_permitted(command, self.flags.force, self.root):
            output.use("shell", where, "rejected", {**where, "reason": "", "isReadonly": False})
            return
        value = {**where, "exitCode": code, "stdout": given.get("stdout", ""), "stderr": ""}
        output.use("shell", {**where, "timeout": 30_000}, "failure" if code else "success", value)

    def _default_edit(self) -> dict[str, str]:
        """Return one small edit per task; another launch for the same task changes the file again."""
        name = f"cursor-{re.sub(r'[^A-Za-z0-9]', '-', self.names['task'])}.md"
        path = self.root / name
        before = path.read_text("utf-8") if path.is_file() else "# Work\n\n"
        return {name: f"{before}Changed by launch {self.number}.\n"}

    def _write(self, output: Output, name: str, text: str) -> None:
        path = self.root / name
        existed = path.exists()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8", newline="")
        if existed:
            value = {"path": str(path), "linesAdded": 1, "linesRemoved": 1, "afterFullFileContent": text}
            output.use("edit", {"path": str(path), "streamContent": text}, "success", value)
        else:
            value = {"path": str(path), "linesCreated": text.count("\n"), "fileSize": len(text)}
            output.use("write", {"path": str(path), "fileText": text}, "success", value)

    def _end(self, output: Output, prompt: str) -> int:
        usage = {"inputTokens": len(prompt) // 4, "outputTokens": 20}
        usage |= {"cacheReadTokens": 0, "cacheWriteTokens": 0} | self.entry.get("usage", {})
        if "orphan" in self.faults:  # which keeps our stdout open
            sleep = [sys.executable, "-ISc", "import time; time.sleep(600)"]
            subprocess.Popen(sleep, stdin=subprocess.DEVNULL, start_new_session=True)
        if "stdout" in self.entry:
            _print(self._fill(self.entry["stdout"]) + "\n")
        sys.stderr.write(self.entry.get("stderr", ""))
        if "no_result" not in self.faults:
            output.finish(usage, self.faults)
        if "hang_after_result" in self.faults:
            _hang()
        if self.flags.words:
            sys.stdin.buffer.read()  # known defect: with a positional prompt it waits for stdin to close
        return int(self.entry.get("exit_code", 0))

    def _fill(self, text: str) -> str:
        return re.sub(r"\{(\w+)\}", lambda found: self.names.get(found[1], found[0]), text)


def _write_defaults() -> None:
    """Write the configuration of a first start, but only to CURSOR_CONFIG_DIR, never to the home folder."""
    folder = os.environ.get("CURSOR_CONFIG_DIR")
    if folder and not (path := Path(folder) / "cli-config.json").exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('{"version": 1, "permissions": {"allow": ["Shell(ls)"], "deny": []}}')


def _is_permitted(command: str, force: bool, root: Path) -> bool:
    """Return whether the command runs: a denied one never does, one not allowed does with --force."""
    folder = os.environ.get("CURSOR_CONFIG_DIR") or str(Path.home() / ".cursor")
    files = (Path(folder) / "cli-config.json", root / ".cursor" / "cli.json")
    rules = [json.loads(path.read_bytes()).get("permissions", {}) for path in files if path.exists()]
    rule = f"Shell({command.split()[0]})"
    if any(rule in found.get("deny", []) for found in rules):
        return False
    return force or any(rule in found.get("allow", []) for found in rules)


def _message(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "text", "text": text}]}


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _hang() -> NoReturn:
    while True:
        time.sleep(600)


def _abort(*_: object) -> NoReturn:
    sys.stderr.write("Aborting operation...\n")
    sys.exit(130)


def _answer(flags: argparse.Namespace, script: Script) -> str:
    """Return what a command prints that is no launch."""
    match flags.words[0] if flags.words else "":
        case _ if flags.version:
            return str(script.settings.get("version", VERSION))
        case "status" | "whoami":
            logged_in = script.logged_in or bool(flags.api_key)
            said = "✓ Logged in as dev@example.com" if logged_in else "Not logged in"
            facts = {"isAuthenticated": logged_in, "message": said}
            return json.dumps(facts) if flags.format == "json" else said
        case "models":
            return "\n".join(["Available models", "", *(f"{id_} - {n}" for id_, n in script.models.items())])
    return ""


def main(argv: list[str]) -> int:
    """Behave like `agent` with these arguments."""
    signal.signal(signal.SIGINT, _abort)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="replace", newline="\n")  # type: ignore[union-attr]
    named = os.environ.get(SCRIPT)
    try:
        flags, script = read_flags(argv), Script(Path(named) if named else None)
        if flags.port or flags.script:
            return _write_and_tell(Path(flags.script) if flags.script else None)
        if not flags.print and (answer := _answer(flags, script)):
            _print(f"{answer}\n")
            return 0
        return Launch(argv, flags, script).run()
    except Refusal as error:
        sys.stderr.write(f"{error}\n")
    return 1


def _write_and_tell(script: Path | None) -> int:
    """Write both programs into a new folder and print it."""
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="fake-cursor-"))
    write_cli(folder, script)
    _print(f"{folder}\n")
    sys.stderr.write(f"A program listens on no port. Use it with: PATH={folder}:$PATH\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
