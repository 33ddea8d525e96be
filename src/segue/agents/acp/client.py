"""Speaks the Agent Client Protocol with one agent, as its client; the standard library alone.

What is seen is told line by line (see `acp_child` for the lines). We offer neither our files nor a
terminal: agents have their own tools for both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from segue.agents.acp.tools import ToolCall, chosen, may
from segue.agents.cursor.tools import bounded, clip, table

Line = dict[str, Any]

AUTH_REQUIRED = -32000
_METHOD_NOT_FOUND = -32601
_FOR_PEOPLE = (
    *("user_message_chunk", "available_commands_update", "session_info_update", "config_option_update"),
)
_SILENCE = 1.0
_OPEN_TOOLS = 1000
_TEXT_CHARS = 64 * 1024
_LONGEST_PAUSE = 60.0


class Wire(Protocol):
    """The pipes to the agent."""

    def send(self, message: Line) -> None:
        """Send a message; it is lost if the agent has gone."""

    def receive(self, timeout: float | None) -> Line | None:
        """The next message; None when there will be no more. Raises TimeoutError."""


class Refused(Exception):
    """The agent has answered a request with an error, or cannot do what is asked."""

    def __init__(self, stage: str, message: str, code: Any = None, data: Any = None) -> None:
        super().__init__(message)
        self.stage, self.code, self.data = stage, code, data


class Gone(Exception):
    """The agent has closed its end, or never answered."""


class Talk:
    """One conversation: requests go out, and what comes in meanwhile is told or answered."""

    def __init__(self, wire: Wire, tell: Callable[[Line], None], job: Mapping[str, Any]) -> None:
        self.stage = "initialize"
        self._wire, self._tell, self._job = wire, tell, job
        self._last_id = 0
        self._session = ""
        self._replayed = 0
        self._retrying_since: float | None = None
        self._tools: dict[str, ToolCall] = {}
        self._updates: dict[str, Callable[[Line, bool], None]] = {
            "agent_message_chunk": self._text,
            "agent_thought_chunk": self._thought,
            "tool_call": self._tool,
            "tool_call_update": self._tool,
            "usage_update": lambda update, _inner: self._tell({"type": "usage", "update": bounded(update)}),
            "plan": lambda update, _inner: self._tell(
                {"type": "plan", "entries": bounded(update.get("entries"))}
            ),
            "current_mode_update": lambda update, _inner: self._tell(
                {"type": "mode", "mode": bounded(update.get("currentModeId"))}
            ),
            **dict.fromkeys(_FOR_PEOPLE, _nothing),
        }

    def run(self) -> None:
        """Have the whole conversation; the last line told is the result."""
        self._initialize()
        found = self._open()
        self._choose(found)
        self.stage = "prompt"
        prompt = [{"type": "text", "text": self._job["prompt"]}]
        answer = self._request("session/prompt", {"sessionId": self._session, "prompt": prompt}, None)
        self._tell(
            {"type": "result", "stop_reason": answer.get("stopReason"), "answer": bounded(dict(answer))}
        )

    def cancel(self, patience: float) -> None:
        """Ask the agent to stop, and listen for a moment whether it says that it has."""
        if self.stage != "prompt":
            return
        self._wire.send(
            {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": self._session}}
        )
        deadline = time.monotonic() + patience
        while (message := self._wire.receive(max(0.0, deadline - time.monotonic()))) is not None:
            if "method" not in message and message.get("id") == self._last_id:
                return
            self._heed(message)

    def _initialize(self) -> None:
        capabilities = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
        asked = {"protocolVersion": 1, "clientCapabilities": capabilities, "clientInfo": self._job["client"]}
        answer = self._request("initialize", asked, self._job["start_timeout"])
        self._can = table(answer.get("agentCapabilities"))
        offered = answer.get("authMethods")
        methods = [table(method).get("id") for method in offered] if isinstance(offered, list) else []
        kept = {"agent": answer.get("agentInfo"), "auth_methods": methods, "can": dict(self._can)}
        self._tell({"type": "start", "protocol": answer.get("protocolVersion"), **bounded(kept)})
        if answer.get("protocolVersion") != 1:
            raise Refused(
                "initialize", f"it speaks version {answer.get('protocolVersion')} of the protocol, not 1"
            )

    def _open(self) -> Mapping[str, Any]:
        """Begin the session, or go on with one; authenticates when that is demanded."""
        try:
            return self._begin()
        except Refused as refusal:
            method = self._job["auth_method"]
            if refusal.code != AUTH_REQUIRED or not method:
                raise
        self.stage = "authenticate"
        self._request("authenticate", {"methodId": method}, self._job["start_timeout"])
        return self._begin()

    def _begin(self) -> Mapping[str, Any]:
        self.stage = "session"
        where = {"cwd": self._job["cwd"], "mcpServers": []}
        wanted = self._job["session"]
        if not wanted:
            answer = self._request("session/new", where, self._job["start_timeout"])
            self._session, how = str(answer.get("sessionId") or ""), "new"
            if not self._session:
                raise Refused("session", "it opened a session without an id")
        else:
            how = self._way_back()
            self._wait()
            self._session = wanted
            asked = {"sessionId": wanted, **where}
            answer = self._request(f"session/{how}", asked, self._job["start_timeout"])
            if how == "load":
                self._settle()
        self._tell({"type": "session", "id": self._session, "how": how, "replayed": self._replayed})
        return answer

    def _settle(self) -> None:
        """Wait for silence: some agents answer first and then tell the session's past, as if it were new."""
        deadline = time.monotonic() + self._job["start_timeout"]
        while time.monotonic() < deadline:
            try:
                message = self._wire.receive(_SILENCE)
            except TimeoutError:
                return
            if message is None:
                raise Gone("it closed its output")
            self._heed(message)

    def _way_back(self) -> str:
        """How a session is gone on with; `load` also replays it, which nobody needs."""
        if table(self._can.get("sessionCapabilities")).get("resume") is not None:
            return "resume"
        if self._can.get("loadSession"):
            return "load"
        raise Refused("session", "this agent cannot go on with an earlier session")

    def _wait(self) -> None:
        pause = min(self._job["not_before"] - time.time(), _LONGEST_PAUSE)
        if pause > 0:
            self._tell({"type": "wait", "seconds": round(pause, 1)})
            time.sleep(pause)

    def _choose(self, found: Mapping[str, Any]) -> None:
        """Set the mode and the model; a mode that cannot be set is an error, for it may be a restriction."""
        mode, model = self._job["mode"], self._job["model"]
        if mode["name"] and mode["option"]:
            self._set_option("mode", mode["option"], mode["name"])
        elif mode["name"] and table(found.get("modes")).get("currentModeId") != mode["name"]:
            self.stage = "mode"
            asked = {"sessionId": self._session, "modeId": mode["name"]}
            self._request("session/set_mode", asked, self._job["start_timeout"])
        if model["name"]:
            self._set_option("model", model["option"], model["name"])

    def _set_option(self, stage: str, option: str | None, value: str) -> None:
        self.stage = stage
        if not option:
            raise Refused(stage, f"this agent cannot be told its {stage}")
        asked = {"sessionId": self._session, "configId": option, "value": value}
        self._request("session/set_config_option", asked, self._job["start_timeout"])

    def _request(self, method: str, params: Line, timeout: float | None) -> Mapping[str, Any]:
        self._last_id += 1
        self._wire.send({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params})
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            try:
                message = self._wire.receive(
                    None if deadline is None else max(0.0, deadline - time.monotonic())
                )
            except TimeoutError:
                raise Gone(f"no answer to {method} within {timeout:g} seconds") from None
            if message is None:
                raise Gone("it closed its output")
            if "method" not in message and message.get("id") == self._last_id:
                return self._answer(message)
            self._heed(message)

    def _answer(self, message: Line) -> Mapping[str, Any]:
        error = message.get("error")
        if error is None:
            return table(message.get("result"))
        found = table(error)
        said = found.get("message")
        text = said if isinstance(said, str) and said else "it gave no reason"
        raise Refused(self.stage, clip(text, 4000), found.get("code"), bounded(found.get("data")))

    def _heed(self, message: Line) -> None:
        """Tell or answer what the agent says of its own accord."""
        method, params = message.get("method"), table(message.get("params"))
        if "retrying" in message:
            self._retried(str(message["retrying"]))
        elif method == "session/update":
            self._retrying_since = None
            self._update(params)
        elif message.get("id") is None or not isinstance(method, str):
            self._tell({"type": "raw", "line": bounded(message)})
        elif method == "session/request_permission":
            self._reply(message, {"outcome": self._permission(params)})
        else:
            self._foreign(message, method, params)

    def _retried(self, text: str) -> None:
        """Its service refuses and it tries again: for a while that is its own business."""
        now = time.monotonic()
        self._tell({"type": "retry", "text": text})
        if self._retrying_since is None:
            self._retrying_since = now
        elif now - self._retrying_since >= self._job["retry_grace"]:
            raise Refused(self.stage, text, data={"retried": True})

    def _foreign(self, message: Line, method: str, params: Mapping[str, Any]) -> None:
        """A request that only this agent makes, or one for something we do not offer."""
        if method == self._job["plan_from"] and isinstance(params.get("plan"), str):
            self._tell({"type": "proposal", "text": params["plan"][-_TEXT_CHARS:]})
        else:
            self._tell({"type": "raw", "line": bounded(message)})
        if method in self._job["answers"]:
            self._reply(message, self._job["answers"][method])
        else:
            error = {"code": _METHOD_NOT_FOUND, "message": f"{method} is not offered"}
            self._wire.send({"jsonrpc": "2.0", "id": message["id"], "error": error})

    def _reply(self, message: Line, result: Line) -> None:
        self._wire.send({"jsonrpc": "2.0", "id": message["id"], "result": result})

    def _update(self, params: Mapping[str, Any]) -> None:
        if self.stage != "prompt":
            self._replayed += 1  # a session that is loaded tells its past
            return
        update = dict(table(params.get("update")))
        known = self._updates.get(str(update.get("sessionUpdate")))
        if known is None:
            self._tell({"type": "raw", "line": bounded(update)})
        else:
            known(update, params.get("sessionId") not in (None, self._session))

    def _text(self, update: Line, inner: bool) -> None:
        content = table(update.get("content"))
        text = content.get("text")
        if isinstance(text, str):
            message = update.get("messageId")
            line = {
                "type": "text",
                "text": text[-_TEXT_CHARS:],
                "message": message if isinstance(message, str) else "",
            }
            self._tell({**line, **({"subagent": True} if inner else {})})
        else:
            self._tell({"type": "raw", "line": bounded(update)})

    def _thought(self, update: Line, _inner: bool) -> None:
        text = table(update.get("content")).get("text")
        self._tell({"type": "thought", "chars": len(text) if isinstance(text, str) else 0})

    def _tool(self, update: Line, _inner: bool) -> None:
        call, new = self._call(update)
        if new:
            self._tell(call.line("started"))
        if call.ended:
            self._tools.pop(call.id, None)
            self._tell(call.line("completed"))
        elif not new:
            self._tell({"type": "tool", "state": "updated", "id": clip(call.id, 200)})

    def _call(self, update: Mapping[str, Any]) -> tuple[ToolCall, bool]:
        """What is known of a call, and whether it was heard of for the first time."""
        key = str(update.get("toolCallId") or "")
        new = key not in self._tools
        if new:
            if len(self._tools) >= _OPEN_TOOLS:
                self._tools.pop(next(iter(self._tools)))
            self._tools[key] = ToolCall(key)
        call = self._tools[key]
        call.learn(update)
        return call, new

    def _permission(self, params: Mapping[str, Any]) -> Line:
        """Answer by the policy; some agents tell of a call here for the first time."""
        call, new = self._call(table(params.get("toolCall")))
        if new:
            self._tell(call.line("started"))
        allowed = may(call.kind, self._job["policy"])
        option = chosen(params.get("options"), allowed)
        # Without a way to say no the turn is cancelled; without a way to say yes, nothing is allowed.
        allowed = allowed and option is not None
        call.rejected = not allowed
        line = {**call.line("started"), "type": "permission", "allowed": allowed, "option": option}
        line.pop("state")
        self._tell(line)
        return {"outcome": "cancelled"} if option is None else {"outcome": "selected", "optionId": option}


def _nothing(_update: Line, _inner: bool) -> None:
    """Some updates are of no use here."""
