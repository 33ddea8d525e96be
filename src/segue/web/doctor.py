"""The page of the doctor: what works on this machine, what does not, and how to fix it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from msgspec import to_builtins

from segue.runtime.app import App
from segue.runtime.doctor import examine
from segue.web.routes import ActionResult, ActionRoute, Data, PageRequest, PageRoute
from segue.web.shared import VersionedCache

_EXAMINED = VersionedCache[Data](8)
"""The last examination: it starts a dozen programs, so it runs once, and again on request."""


def query_doctor(request: PageRequest) -> Data:
    """Return the findings; working agents first."""
    return _read_findings(request.app)


def _read_findings(app: App) -> Data:
    return _EXAMINED.get(_key(app), None, lambda: _examine(app))


def _examine(app: App) -> Data:
    at, findings = int(time.time() * 1000), asyncio.run(examine(app))
    redact = app.redactor().text
    found: list[dict[str, Any]] = [
        {**to_builtins(one), "detail": redact(one.detail), "fix": redact(one.fix)} for one in findings
    ]
    return {
        "title": "Doctor",
        "at": at,
        "machine": [one for one in found if one["agent"] is None],
        "agents": sorted((one for one in found if one["agent"]), key=lambda one: not one["ok"]),
        "broken": [one["what"] for one in found if one["needed"] and not one["ok"]],
    }


def _key(app: App) -> str:
    return f"{app.repo}\0{app.database()}"


async def check_again(app: App, _path: Mapping[str, str], _form: Mapping[str, str]) -> ActionResult:
    """Examine the machine again."""
    _EXAMINED.forget(_key(app))
    await asyncio.to_thread(_read_findings, app)
    return ActionResult("Checked again.", "/doctor")


PAGES = (PageRoute("/doctor", "doctor.html", "Doctor", query_doctor, menu=True, slow=True),)
ACTIONS = (ActionRoute("/doctor/again", check_again),)
