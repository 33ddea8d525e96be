"""The simulated agent as a client of a server in the Model Context Protocol. Standard library only."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from typing import Any

_VERSION = "2025-06-18"


def call_tool(server: Mapping[str, Any], name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Start a server, call a tool of it, and return what it answers."""
    variables = {one["name"]: one["value"] for one in server["env"]}
    who = {"name": "segue-sim", "version": "1"}
    hello = {"protocolVersion": _VERSION, "capabilities": {}, "clientInfo": who}
    asked = {"name": name, "arguments": arguments}
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": asked},
    ]
    with subprocess.Popen(
        [server["command"], *server["args"]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **variables},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        answer: dict[str, Any] = {}
        for message in messages:
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            process.stdin.flush()
            while "id" in message and answer.get("id") != message["id"]:
                line = process.stdout.readline()
                if not line:
                    return {"error": "the server is gone"}
                answer = json.loads(line)
        process.stdin.close()
    return answer
