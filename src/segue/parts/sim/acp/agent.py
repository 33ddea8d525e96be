"""A stand-in for agents that speak the Agent Client Protocol: their modes, permissions, sessions and defects.

It imports only the standard library, so that it starts fast, and edits real files. `segue sim bin` puts it on
the PATH under the names of those agents; `segue help simulators` describes its script and its faults.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from segue.parts.sim.acp.mcp_child import call_tool
from segue.parts.sim.acp.script import FLAVOURS, WORDS, Flavour
from segue.sim.script import BadScript, ProgramScript, find_file, hang

_LONG = 10 * 1024 * 1024
_AUTH_REQUIRED = -32000
_NOT_FOUND = -32601
_INVALID_PARAMS = -32602
_INTERNAL_ERROR = -32603


class TurnCancelled(Exception):
    """The client cancels the turn."""


class AcpError(Exception):
    """The error that answers a request."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message, **({} if data is None else {"data": data})}


def main(flavour: str, arguments: list[str], home: Path) -> int:
    """Act as the agent of this flavour; without a script, launches are counted in `home`."""
    if "--version" in arguments:
        sys.stdout.write(FLAVOURS[flavour].version + "\n")
        return 0
    try:
        return AcpAgentProcess(FLAVOURS[flavour], ProgramScript.load(WORDS, home), arguments).run()
    except BadScript as error:
        sys.stderr.write(f"sim: {error}\n")
        return 2


class AcpAgentProcess:
    """One process, which answers requests until its input ends."""

    def __init__(self, flavour: Flavour, script: ProgramScript, arguments: list[str]) -> None:
        seen = sorted(name for name in os.environ if not name.startswith(("LC_", "XDG_")))
        facts = {"argv": arguments, "cwd": str(Path.cwd()), "env": seen, "home": os.environ.get("HOME", "")}
        self.flavour, self.script = flavour, script
        self.number = sum(line["type"] == "launch" for line in script.state.append(type="launch", **facts))
        self.faults = script.list_faults({})
        self.entry: Mapping[str, Any] = {}
        self.mode, self.model = flavour.starts_in, ""
        self.session, self.authenticated = "", False
        self.servers: list[dict[str, Any]] = []
        self.last_id = 0
        self.calls = 0

    def run(self) -> int:
        """Answer until the input ends."""
        if "die_at_start" in self.faults:
            sys.stderr.write("Error: it cannot start here\n")
            return 1
        if "mute" in self.faults:
            hang()
        if "stay" in self.faults:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while (message := _read()) is not None:
            if "method" in message and "id" in message:
                self._answer(message)
                if message["method"] == "session/load" and "late_history" in self.faults:
                    self._replay_history()
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
        lacks = not self.flavour.resumes or "no_resume" in self.faults
        if handle is None or (method == "session/resume" and lacks):
            _send({"id": message["id"], "error": {"code": _NOT_FOUND, "message": "Method not found"}})
            return
        try:
            _send({"id": message["id"], "result": handle({**params, "method": method})})
        except AcpError as wrong:
            _send({"id": message["id"], "error": wrong.error})

    def _initialize(self, _params: Mapping[str, Any]) -> dict[str, Any]:
        sessions: dict[str, Any] = {"list": {}, **({"resume": {}} if self.flavour.resumes else {})}
        return {
            "protocolVersion": 2 if "version" in self.faults else 1,
            "agentCapabilities": {"loadSession": True, "sessionCapabilities": sessions},
            "authMethods": [{"id": self.flavour.auth, "name": "Log in"}],
            "agentInfo": {"name": "segue-sim", "version": self.flavour.version.split()[-1]},
        }

    def _authenticate(self, params: Mapping[str, Any]) -> dict[str, Any]:
        if "auth_fails" in self.faults or params["methodId"] != self.flavour.auth:
            raise AcpError(_AUTH_REQUIRED, "Authentication failed: the key was not accepted")
        self.authenticated = True
        return {}

    def _new(self, params: Mapping[str, Any]) -> dict[str, Any]:
        self._require_login()
        self.servers = params["mcpServers"]
        if "no_session" in self.faults:
            self.faults.discard("no_session")
            raise AcpError(_INTERNAL_ERROR, "Internal error", {"details": "service failure"})
        self.session = str(uuid.uuid4())
        return {"sessionId": self.session, **self._state()}

    def _load(self, params: Mapping[str, Any]) -> dict[str, Any]:
        self._require_login()
        self.servers, session = params["mcpServers"], params["sessionId"]
        if not any(line.get("session") == session for line in self.script.state.read()):
            raise AcpError(_INVALID_PARAMS, f"Session not found: {session}")
        self.session = session
        if params["method"] == "session/load" and "late_history" not in self.faults:
            self._replay_history()
        return self._state()

    def _replay_history(self) -> None:
        self._update("user_message_chunk", content={"type": "text", "text": "an earlier question"})
        self._update("tool_call", toolCallId="old", kind="edit", title="Old", status="completed")
        self._update("agent_message_chunk", content={"type": "text", "text": "an earlier answer"})

    def _require_login(self) -> None:
        if self.faults & {"auth", "auth_fails"} and not self.authenticated:
            raise AcpError(_AUTH_REQUIRED, "Authentication required")

    def _state(self) -> dict[str, Any]:
        if not self.flavour.by_option:
            modes = [{"id": mode, "name": mode} for mode in self.flavour.modes]
            return {"modes": {"currentModeId": self.mode, "availableModes": modes}}
        values = [{"value": mode, "name": mode} for mode in self.flavour.modes]
        option = {"id": "mode", "name": "Mode", "category": "mode", "type": "select"}
        return {"configOptions": [{**option, "currentValue": self.mode, "options": values}]}

    def _set_mode(self, params: Mapping[str, Any]) -> dict[str, Any]:
        if params["modeId"] not in self.flavour.modes or self.flavour.by_option:
            raise AcpError(_INVALID_PARAMS, f"Invalid mode: {params['modeId']}")
        self.mode = params["modeId"]
        self._update("current_mode_update", currentModeId=self.mode)
        return {}

    def _set_option(self, params: Mapping[str, Any]) -> dict[str, Any]:
        if params["configId"] == "mode" and params["value"] in self.flavour.modes:
            self.mode = params["value"]
        elif params["configId"] == "model" and params["value"] != "unknown":
            self.model = params["value"]
        else:
            raise AcpError(_INVALID_PARAMS, f"Invalid value for {params['configId']}: {params['value']}")
        return self._state()

    def _prompt(self, params: Mapping[str, Any]) -> dict[str, Any]:
        prompt = "".join(block.get("text", "") for block in params["prompt"])
        data = prompt.encode("utf-8", "replace")
        digest = hashlib.sha256(data).hexdigest()
        facts = {"session": self.session, "mode": self.mode, "model": self.model, "bytes": len(data)}
        self.script.state.append(type="prompt", sha256=digest, **facts)
        self.entry = self.script.pick(self.number, self.mode, lambda: prompt)
        self.faults = self.script.list_faults(self.entry)
        try:
            self._work(digest[:12])
        except TurnCancelled:
            return {"stopReason": "cancelled"}
        if "cost" in self.entry:
            cost = {"amount": self.entry["cost"], "currency": "USD"}
            self._update("usage_update", used=100, size=200_000, cost=cost)
        usage = {"usage": dict(self.entry["usage"])} if "usage" in self.entry else {}
        return {"stopReason": self.entry.get("stop_reason", "end_turn"), **usage}

    def _work(self, digest: str) -> None:
        if "stderr" in self.entry:
            sys.stderr.write(self.entry["stderr"] + "\n")
            sys.stderr.flush()
        for number in range(self.entry.get("thinking", 2)):
            self._update("agent_thought_chunk", content={"type": "text", "text": f"thought {number}"})
        time.sleep(self.entry.get("delay", 0))
        self._misbehave()
        plans = self.mode == self.flavour.plan
        if not plans or self.faults & {"plan_asks", "plan_writes"}:
            self._use_tools(digest)
        if "error_text" in self.faults:
            self._say(str(self.entry.get("error", {}).get("message", "Error: 401 Unauthorized")))
        elif plans:
            self._say(self.entry.get("plan", "1. Make the change.\n2. Check it."))
        else:
            self._say(self.entry.get("say", "Done: I changed what the task asks for."))

    def _misbehave(self) -> None:
        """Do everything odd that comes before the work."""
        faults = self.faults
        if "long_line" in faults:
            self._update("agent_message_chunk", content={"type": "text", "text": "." * _LONG})
        if "noise" in faults:
            sys.stdout.buffer.write(b"npm warn: this line is no JSON\n")
        if "unknown_update" in faults:
            self._update("weather_update", weather="fine")
        if "unknown_request" in faults:
            for method in ("fs/read_text_file", "sim/made_up"):
                assert "error" in self._request(method, {"sessionId": self.session, "path": "/etc/passwd"})
        if "orphan" in faults:
            from segue.sim.orphan_child import leave_orphan

            leave_orphan()
        self._break_off(faults)

    def _break_off(self, faults: set[str]) -> None:
        """Do what ends the work before it has begun."""
        if "die" in faults:
            self._say("I will now")
            os._exit(1)
        if "close_stdout" in faults:
            os.close(1)
            hang()
        if "error" in faults:
            error = {"code": 500, "message": "Internal error", **self.entry.get("error", {})}
            raise AcpError(error["code"], error["message"], error.get("data"))
        while "retry" in faults:
            where = "providerID=sim small=false agent=build"
            said = 'error.error="AI_APICallError: Service Unavailable"'
            sys.stderr.write(f'level=ERROR message="stream error" {where} {said}\n')
            sys.stderr.flush()
            time.sleep(0.05)
        while "hang" in faults:
            self._obey(_read())

    def _use_tools(self, digest: str) -> None:
        for path in self.entry.get("read", []):
            self._tool("read", f"Read {path}", {"path": path}, asks=False)
        for command in self.entry.get("shell", []):
            self._tool("execute", command, {"command": command})
        for call in self.entry.get("tools", []):
            for server in self.servers:
                self._tool("other", f"{server['name']}_{call['name']}", call["arguments"])
                self.script.state.append(type="tool", answer=call_tool(server, **call))
        edits = self.entry.get("write", {f"acp-{digest}.md": f"Changed by launch {self.number}.\n"})
        for name, text in edits.items():
            if self._tool("edit", f"Writing to {name}", {"file_path": name, "content": text}):
                path = find_file(Path.cwd(), name)
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("a", encoding="utf-8", newline="") as file:
                    file.write(text)

    def _tool(self, kind: str, title: str, given: dict[str, Any], asks: bool = True) -> bool:
        """Report a call, ask for permission, and report how it ended."""
        self.calls += 1
        call = {"toolCallId": f"call-{self.calls}", "kind": kind, "title": title, "rawInput": given}
        allowed = "plan_writes" in self.faults or self.mode in ("yolo", "auto-approve")
        asks = asks and not allowed
        if (self.flavour.announces or not asks) and "late_tool" not in self.faults:
            self._update("tool_call", **call, status="pending")
        if asks and not self._ask_permission(call):
            self._update("tool_call_update", toolCallId=call["toolCallId"], status="failed")
            if "reject_cancels" in self.faults:
                raise TurnCancelled
            return False
        self._update("tool_call_update", toolCallId=call["toolCallId"], status="in_progress")
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
        self.script.state.append(type="permission", call=call["title"], outcome=outcome)
        if outcome["outcome"] == "cancelled":
            raise TurnCancelled
        return outcome["optionId"] in ("always", "once")

    def _request(self, method: str, params: dict[str, Any]) -> Mapping[str, Any]:
        self.last_id += 1
        name = f"sim-{self.last_id}"
        _send({"id": name, "method": method, "params": params})
        while True:
            message = _read()
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
        _send({"method": "session/update", "params": {"sessionId": self.session, "update": update}})


def _read() -> Mapping[str, Any] | None:
    line = sys.stdin.buffer.readline()
    if not line:
        return None
    message: Mapping[str, Any] = json.loads(line)
    return message


def _send(message: dict[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    sys.stdout.buffer.flush()
