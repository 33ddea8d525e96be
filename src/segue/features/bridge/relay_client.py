"""Asks the relay on the user's machine to run an action; every way it can end is a result."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from segue.features.bridge.commands import LocalAction
from segue.features.bridge.options import BridgeSettings
from segue.features.bridge.steps import CommandOutput
from segue.system.http.client import HttpClient, HttpError, HttpPolicy, HttpResponse

_REFUSALS = {
    400: "the relay does not understand it",
    401: "the relay does not know this token",
    403: "the relay does not allow it",
    404: "the relay has no such action",
    409: "the relay is already running it",
    413: "the relay was sent too much",
    422: "the relay refuses these parameters",
    429: "the relay was asked too often",
}
_OUTPUT = 64 * 1024
_OWN = ("id", "action", "status", "output", "stdout", "stderr")


async def run_action(settings: BridgeSettings, command: LocalAction, token: str) -> CommandOutput:
    """Have the relay run an action: `done`, `failed`, `refused` or `unreachable`, with details.

    The token identifies the call, so a repeat after a crash is harmless.
    """
    if settings.relay_url is None:
        return CommandOutput("refused", {"reason": "no relay is configured (bridge.relay_url)"})
    secret = _read_secret(settings)
    if not secret:
        reason = f"the relay's token is not set ({settings.relay_token_env})"
        return CommandOutput("refused", {"reason": reason})
    headers = {"Authorization": f"Bearer {secret}"}
    policy = HttpPolicy(timeout=settings.relay_timeout, max_bytes=4 * 1024 * 1024, attempts=3)
    body = {"action": command.action, "parameters": dict(command.parameters)}
    try:
        async with HttpClient(settings.relay_url, headers, policy) as http:
            answer = await http.request(
                "POST", "/run", body=body, headers={"Idempotency-Key": token}, repeatable=True
            )
    except HttpError as error:
        return CommandOutput("unreachable", {"reason": str(error)})
    return _read_answer(answer)


async def list_actions(settings: BridgeSettings) -> tuple[str, ...]:
    """Return the relay's actions with their parameters; none if it does not answer."""
    secret = _read_secret(settings)
    if settings.relay_url is None or not secret:
        return ()
    policy = HttpPolicy(timeout=5.0, max_bytes=1024 * 1024, attempts=1)
    try:
        async with HttpClient(settings.relay_url, {"Authorization": f"Bearer {secret}"}, policy) as http:
            answer = await http.request("GET", "/actions")
        data = answer.json()
    except (HttpError, ValueError):
        return ()
    known = data.get("actions") if isinstance(data, dict) else None
    return tuple(_describe(one) for one in known if isinstance(one, dict)) if isinstance(known, list) else ()


def _describe(action: Mapping[str, Any]) -> str:
    """Return how an action is written, what its parameters must match, and what it does."""
    given = action.get("parameters")
    parameters = {str(k): str(v) for k, v in given.items()} if isinstance(given, dict) else {}
    written = ", ".join([str(action.get("name", "")), *(f"{name}=<{name}>" for name in parameters)])
    rules = "; ".join(f"{name} matches {pattern}" for name, pattern in parameters.items())
    more = ". ".join(filter(None, (str(action.get("description") or ""), rules)))
    return " ".join(f"{written}   {more}".split("\n")).strip()[:500]


def _read_answer(answer: HttpResponse) -> CommandOutput:
    try:
        data = answer.json()
    except ValueError:
        data = {}
    facts = data if isinstance(data, dict) else {}
    if answer.status != 200:
        reason = _REFUSALS.get(answer.status, f"the relay answered with {answer.status}")
        detail = facts.get("error") or facts.get("detail")
        problem = {"reason": f"{reason}: {detail}" if detail else reason, "http_status": answer.status}
        return CommandOutput("refused" if answer.status in _REFUSALS else "unreachable", problem)
    kept = {name: value for name, value in facts.items() if name not in _OWN and _is_short(value)}
    output = {name: str(facts[name])[-_OUTPUT:] for name in ("output", "stdout", "stderr") if facts.get(name)}
    return CommandOutput("done" if facts.get("exit_code") == 0 else "failed", {**kept, **output})


def _is_short(value: object) -> bool:
    return isinstance(value, int | float | bool) or (isinstance(value, str) and len(value) <= 500)


def _read_secret(settings: BridgeSettings) -> str:
    if settings.relay_token_file is not None:
        try:
            return Path(settings.relay_token_file).read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError):
            return ""
    return os.environ.get(settings.relay_token_env, "").strip()
