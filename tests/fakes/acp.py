"""A stand-in for agents that speak the Agent Client Protocol, with the habits of four vendors' agents.

It talks on stdin and stdout, edits real files and shows commands without running them. `write_programs`
puts it into a folder for the PATH under their names; `python -m tests.fakes.acp --port N [--script FILE]
[--name NAME]` listens on a socket, where each connection is one agent. It needs the standard library only.

The script is TOML: `faults = [...]` for every launch, and entries `[[on]]`. The first one that matches a
prompt by `launch` (its number, from 1), `mode`, `task`, `phase`, `attempt` and `contains` tells what is done:
`stderr`, `wait_for` (a file), `read`, `shell`, `write` (path = text, appended), `tools` (calls of servers of
the client), `plan` or `say`, `usage`, `cost`, `stop_reason`, `error` and `faults`. What happens is logged
beside the script, as JSON lines of the types launch, prompt, permission and tool. The faults:

    die_at_start mute version auth no_session    before the prompt; `no_session` once, `mute` never answers
    error error_text die hang retry              ends of the turn; `retry` logs that its service refuses
    ignore_cancel stay orphan                    what a client has to end
    noise late_tool late_history no_resume       odd lines, orders and claims
    reject_cancels plan_asks plan_writes         permissions
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple


class Vendor(NamedTuple):
    """The modes and habits of one vendor's agent."""

    version: str
    modes: Sequence[str]
    """The first one is where it starts."""
    plan: str
    """The mode in which it changes nothing."""
    auth: str
    by_option: bool = False
    """The mode is an option of the session."""
    announces: bool = True
    """It reports a tool call before it asks for permission."""
    resumes: bool = False


_SESSION_MODES = "https://agentclientprotocol.com/protocol/session-modes#"
_COPILOT_MODES = [_SESSION_MODES + mode for mode in ("agent", "plan", "autopilot")]
VENDORS = {
    "gemini": Vendor(
        "0.61.0", ["default", "autoEdit", "yolo", "plan"], "plan", "gemini-api-key", announces=False
    ),
    "copilot": Vendor(
        "GitHub Copilot CLI 1.0.102.\nRun 'copilot update' to check for updates.",
        _COPILOT_MODES,
        _COPILOT_MODES[1],
        "copilot-login",
    ),
    "opencode": Vendor("1.18.18", ["build", "plan"], "plan", "opencode-login", by_option=True, resumes=True),
    "qwen": Vendor(
        "0.24.4", ["auto", "plan", "default", "auto-edit", "yolo"], "plan", "openai", resumes=True
    ),
}
_AUTH_REQUIRED, _NOT_FOUND, _INVALID_PARAMS, _INTERNAL_ERROR = -32000, -32601, -32602, -32603
_ORPHAN = "import time; time.sleep(600)"


class TurnCancelled(Exception):
    """The client cancels the turn."""


class AcpError(Exception):
    """The error that answers a request."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message, **({} if data is None else {"data": data})}


class Script:
    """What the agent does, and the log of what has happened."""

    def __init__(self, path: Path) -> None:
        import tomllib  # slow to import, and not needed to tell the version

        self._path = path
        settings = tomllib.loads(path.read_text("utf-8")) if path.exists() else {}
        self._entries: list[dict[str, Any]] = settings.get("on", [])
        self.faults = set(settings.get("faults", []))

    def log(self, **facts: Any) -> None:
        """Append a line."""
        with log_of(self._path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(facts) + "\n")

    def lines(self) -> list[dict[str, Any]]:
        """Return the lines of the log."""
        return read_log(self._path)

    def pick(self, launch: int, mode: str, prompt: str) -> dict[str, Any]:
        """Return the first entry that matches this prompt, or an empty one."""
        facts = {name: os.environ.get(f"SEGUE_{name.upper()}") for name in ("task", "phase", "attempt")}
        facts |= {"launch": str(launch), "mode": mode}
        for entry in self._entries:
            wanted = {name: str(entry[name]) for name in facts if name in entry}
            if wanted.items() <= facts.items() and entry.get("contains", "") in prompt:
                return entry
        return {}


def log_of(script: Path) -> Path:
    """Return where agents with this script write what has happened."""
    return script.with_suffix(".log")


def read_log(script: Path, kind: str = "") -> list[dict[str, Any]]:
    """Return what has happened, or the lines of one type of it."""
    log = log_of(script)
    lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()] if log.exists() else []
    return [line for line in lines if kind in ("", line["type"])]


class AcpAgent:
    """One process, which answers requests until its input ends."""

    def __init__(self, vendor: Vendor, script: Script, arguments: Sequence[str]) -> None:
        seen = sorted(name for name in os.environ if not name.startswith(("LC_", "XDG_")))
        script.log(type="launch", argv=[*arguments], cwd=str(Path.cwd()), env=seen)
        self.vendor, self.script = vendor, script
        self.number = sum(line["type"] == "launch" for line in script.lines())
        self.faults = set(script.faults)
        self.entry: Mapping[str, Any] = {}
        self.mode, self.model = vendor.modes[0], ""
        self.session, self.is_logged_in = "", False
        self.last_id = self.calls = 0

    def run(self) -> int:
        """Answer until the input ends."""
        if "die_at_start" in self.faults:
            sys.stderr.write("Error: it cannot start here\n")
            return 1
        if "mute" in self.faults:
            hang()
        if "stay" in self.faults:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while (message := receive()) is not None:
            if "method" in message and "id" in message:
                self._answer(message)
        if "stay" in self.faults:
            hang()
        return 0

    def _answer(self, message: Mapping[str, Any]) -> None:
        method, params = message["method"], message.get("params", {})
        handle = {
            "initialize": self._initialize,
            "authenticate": self._authenticate,
            "session/new": self._new,
            "session/load": self._load,
            "session/resume": self._load,
            "session/set_mode": self._set_mode,
            "session/set_config_option": self._set_option,
            "session/prompt": self._prompt,
        }.get(method)
        if handle is None or (method == "session/resume" and "no_resume" in self.faults):
            send({"id": message["id"], "error": {"code": _NOT_FOUND, "message": "Method not found"}})
            return
        try:
            send({"id": message["id"], "result": handle({**params, "method": method})})
        except AcpError as wrong:
            send({"id": message["id"], "error": wrong.error})
        if method == "session/load" and "late_history" in self.faults:
            self._replay_history()

    def _initialize(self, _params: Mapping[str, Any]) -> dict[str, Any]:
        sessions: dict[str, Any] = {"list": {}, **({"resume": {}} if self.vendor.resumes else {})}
        return {
            "protocolVersion": 2 if "version" in self.faults else 1,
            "agentCapabilities": {"loadSession": True, "sessionCapabilities": sessions},
            "authMethods": [{"id": self.vendor.auth, "name": "Log in"}],
            "agentInfo": {"name": "fake", "version": self.vendor.version.split()[-1]},
        }

    def _authenticate(self, params: Mapping[str, Any]) -> dict[str, Any]:
        if params["methodId"] != self.vendor.auth:
            raise AcpError(_AUTH_REQUIRED, "Authentication failed: the key was not accepted")
        self.is_logged_in = True
        return {}

    def _open(self, params: Mapping[str, Any]) -> None:
        if "auth" in self.faults and not self.is_logged_in:
            raise AcpError(_AUTH_REQUIRED, "Authentication required")

    def _new(self, params: Mapping[str, Any]) -> dict[str, Any]:
        self._open(params)
        if "no_session" in self.faults:
            self.faults.discard("no_session")
            raise AcpError(_INTERNAL_ERROR, "Internal error", {"details": "service failure"})
        self.session = str(uuid.uuid4())
        return {"sessionId": self.session, **self._state()}

    def _load(self, params: Mapping[str, Any]) -> dict[str, Any]:
        self._open(params)
        self.session = params["sessionId"]
        if not any(line.get("session") == self.session for line in self.script.lines()):
            raise AcpError(_INVALID_PARAMS, f"Session not found: {self.session}")
        if params["method"] == "session/load" and "late_history" not in self.faults:
            self._replay_history()
        return self._state()

    def _replay_history(self) -> None:
        self._update("user_message_chunk", content={"type": "text", "text": "an earlier question"})
        self._update("tool_call", toolCallId="old", kind="edit", title="Old", status="completed")
        self._update("agent_message_chunk", content={"type": "text", "text": "an earlier answer"})

    def _state(self) -> dict[str, Any]:
        if not self.vendor.by_option:
            modes = [{"id": mode, "name": mode} for mode in self.vendor.modes]
            return {"modes": {"currentModeId": self.mode, "availableModes": modes}}
        values = [{"value": mode, "name": mode} for mode in self.vendor.modes]
        option = {"id": "mode", "name": "Mode", "category": "mode", "type": "select"}
        return {"configOptions": [{**option, "currentValue": self.mode, "options": values}]}

    def _set_mode(self, params: Mapping[str, Any]) -> dict[str, Any]:
        if params["modeId"] not in self.vendor.modes or self.vendor.by_option:
            raise AcpError(_INVALID_PARAMS, f"Invalid mode: {params['modeId']}")
        self.mode = params["modeId"]
        self._update("current_mode_update", currentModeId=self.mode)
        return {}

    def _set_option(self, params: Mapping[str, Any]) -> dict[str, Any]:
        name, value = params["configId"], params["value"]
        if name == "mode" and value in self.vendor.modes:
            self.mode = value
        elif name == "model" and value != "unknown":
            self.model = value
        else:
            raise AcpError(_INVALID_PARAMS, f"Invalid value for {name}: {value}")
        return self._state()

    def _prompt(self, params: Mapping[str, Any]) -> dict[str, Any]:
        prompt = "".join(block.get("text", "") for block in params["prompt"])
        digest = hashlib.sha256(prompt.encode("utf-8", "replace")).hexdigest()
        self.script.log(type="prompt", session=self.session, mode=self.mode, model=self.model, sha256=digest)
        self.entry = self.script.pick(self.number, self.mode, prompt)
        self.faults = self.script.faults | {*self.entry.get("faults", [])}
        try:
            self._work(digest[:12])
        except TurnCancelled:
            return {"stopReason": "cancelled"}
        if "cost" in self.entry:
            cost = {"amount": self.entry["cost"], "currency": "USD"}
            self._update("usage_update", used=100, size=200_000, cost=cost)
        usage = {"usage": self.entry["usage"]} if "usage" in self.entry else {}
        return {"stopReason": self.entry.get("stop_reason", "end_turn"), **usage}

    def _work(self, digest: str) -> None:
        if "stderr" in self.entry:
            self._print_error(self.entry["stderr"])
        for number in range(2):
            self._update("agent_thought_chunk", content={"type": "text", "text": f"thought {number}"})
        while "wait_for" in self.entry and not Path(self.entry["wait_for"]).exists():
            time.sleep(0.02)
        self._misbehave()
        plans = self.mode == self.vendor.plan
        if not plans or self.faults & {"plan_asks", "plan_writes"}:
            self._use_tools(digest)
        if "error_text" in self.faults:
            self._say(self.entry.get("error", {}).get("message", "Error: 401 Unauthorized"))
        elif plans:
            self._say(self.entry.get("plan", "1. Make the change.\n2. Check it."))
        else:
            self._say(self.entry.get("say", "Done: I changed what the task asks for."))

    def _misbehave(self) -> None:
        """Do everything odd that comes before the work."""
        if "noise" in self.faults:
            sys.stdout.buffer.write(b"npm warn: this line is no JSON\n")
            self._update("weather_update", weather="fine")
            for method in ("fs/read_text_file", "fake/made_up"):
                assert "error" in self._request(method, {"sessionId": self.session, "path": "/etc/passwd"})
        if "orphan" in self.faults:
            subprocess.Popen([sys.executable, "-IS", "-c", _ORPHAN], stdin=subprocess.DEVNULL,
                             start_new_session=True)  # fmt: skip
        if "die" in self.faults:
            self._say("I will now")
            os._exit(1)
        if "error" in self.faults:
            error = {"code": 500, "message": "Internal error", **self.entry.get("error", {})}
            raise AcpError(error["code"], error["message"], error.get("data"))
        while "retry" in self.faults:
            where = "providerID=fake small=false agent=build"
            said = 'error.error="AI_APICallError: Service Unavailable"'
            self._print_error(f'level=ERROR message="stream error" {where} {said}')
            time.sleep(0.05)
        while "hang" in self.faults:
            self._obey(receive())

    def _use_tools(self, digest: str) -> None:
        for path in self.entry.get("read", []):
            self._use("read", f"Read {path}", {"path": path}, asks=False)
        for command in self.entry.get("shell", []):
            self._use("execute", command, {"command": command})
        edits = self.entry.get("write", {f"acp-{digest}.md": f"Changed by launch {self.number}.\n"})
        for name, text in edits.items():
            if self._use("edit", f"Writing to {name}", {"file_path": name, "content": text}):
                path = Path.cwd() / name
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("a", encoding="utf-8", newline="") as file:
                    file.write(text)

    def _use(self, kind: str, title: str, given: dict[str, Any], asks: bool = True) -> bool:
        """Report a call, ask for permission, and report how it ended."""
        self.calls += 1
        call = {"toolCallId": f"call-{self.calls}", "kind": kind, "title": title, "rawInput": given}
        asks = asks and "plan_writes" not in self.faults and self.mode != "yolo"
        if (self.vendor.announces or not asks) and "late_tool" not in self.faults:
            self._update("tool_call", **call, status="pending")
        if asks and not self._ask_permission(call):
            self._update("tool_call_update", toolCallId=call["toolCallId"], status="failed")
            if "reject_cancels" in self.faults:
                raise TurnCancelled
            return False
        content = [{"type": "content", "content": {"type": "text", "text": f"{title}: ok"}}]
        known = call if "late_tool" in self.faults else {"toolCallId": call["toolCallId"]}
        self._update("tool_call_update", **known, status="completed", content=content)
        return True

    def _ask_permission(self, call: dict[str, Any]) -> bool:
        options = [
            {"optionId": "always", "name": "Always", "kind": "allow_always"},
            {"optionId": "once", "name": "Once", "kind": "allow_once"},
            {"optionId": "no", "name": "No", "kind": "reject_once"},
        ]
        asked = {"sessionId": self.session, "toolCall": {**call, "status": "pending"}, "options": options}
        outcome = self._request("session/request_permission", asked)["result"]["outcome"]
        self.script.log(type="permission", call=call["title"], outcome=outcome)
        if outcome["outcome"] == "cancelled":
            raise TurnCancelled
        return outcome["optionId"] in ("always", "once")

    def _request(self, method: str, params: dict[str, Any]) -> Mapping[str, Any]:
        self.last_id += 1
        name = f"fake-{self.last_id}"
        send({"id": name, "method": method, "params": params})
        while True:
            message = receive()
            if message is not None and message.get("id") == name:
                return message
            self._obey(message)

    def _obey(self, message: Mapping[str, Any] | None) -> None:
        """Handle what may come in the middle of a turn: the end of the input, or a cancellation."""
        if message is None:
            if "stay" in self.faults:
                hang()
            sys.exit(0)
        if message.get("method") == "session/cancel" and "ignore_cancel" not in self.faults:
            raise TurnCancelled

    def _say(self, text: str) -> None:
        middle = len(text) // 2
        for piece in (text[:middle], text[middle:]):
            self._update("agent_message_chunk", content={"type": "text", "text": piece})

    def _update(self, name: str, **facts: Any) -> None:
        update = {"sessionUpdate": name, **facts}
        send({"method": "session/update", "params": {"sessionId": self.session, "update": update}})

    def _print_error(self, text: str) -> None:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def receive() -> Mapping[str, Any] | None:
    """Read a message; None at the end of the input."""
    line = sys.stdin.buffer.readline()
    message: Mapping[str, Any] | None = json.loads(line) if line else None
    return message


def send(message: dict[str, Any]) -> None:
    """Write a message."""
    sys.stdout.buffer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    sys.stdout.buffer.flush()


def hang() -> None:
    """Never return."""
    while True:
        time.sleep(600)


_PROGRAM = """\
import sys
sys.path.append({folder!r})
from acp import run
sys.exit(run({name!r}, {script!r}, sys.argv[1:]))
"""


def write_programs(folder: Path, script: Path | None = None, names: Sequence[str] = tuple(VENDORS)) -> Path:
    """Write the programs into a folder and return where their script is: `acp.toml` there, unless given."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(__file__, folder / "acp.py")  # a sandbox may hide this one
    script = script or folder / "acp.toml"
    for name in names:
        # A first line may not be long, and its program not contain spaces.
        start = f"#!/bin/sh\n'''exec' \"{sys.executable}\" -I -S \"$0\" \"$@\"\n' '''\n"
        (folder / name).write_text(start + _PROGRAM.format(folder=str(folder), name=name, script=str(script)))
        (folder / name).chmod(0o755)
    return script


def run(name: str, script: str, arguments: Sequence[str]) -> int:
    """Act as one of the agents."""
    if "--version" in arguments:
        sys.stdout.write(VENDORS[name].version + "\n")
        return 0
    return AcpAgent(VENDORS[name], Script(Path(script)), arguments).run()


def main() -> None:
    """Listen on a socket; each connection is an agent in a process of its own."""
    parser = argparse.ArgumentParser(prog="python -m tests.fakes.acp")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", type=Path, default=Path("acp.toml"))
    parser.add_argument("--name", choices=VENDORS, default="gemini")
    given = parser.parse_args()
    code = _PROGRAM.format(folder=str(Path(__file__).parent), name=given.name, script=str(given.script))
    with socket.create_server(("127.0.0.1", given.port)) as listener, contextlib.suppress(KeyboardInterrupt):
        sys.stdout.write(f"127.0.0.1:{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        while True:
            connection, _ = listener.accept()
            subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", code],
                stdin=connection.fileno(),
                stdout=connection.fileno(),
            )
            connection.close()


if __name__ == "__main__":
    main()
