"""The pages of the doctor: what works on this machine, how to fix what does not, and the settings."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from msgspec import to_builtins

from segue.config.load import show
from segue.runtime.app import App
from segue.runtime.doctor import HealthCheck, examine
from segue.web.cache import VersionedCache
from segue.web.routes import ActionResult, ActionRoute, Data, PageRequest, PageRoute

_EXAMINED = VersionedCache[Data](8)
"""The last examination: it starts a dozen programs, so it runs once, and again on request."""


def query_doctor(request: PageRequest) -> Data:
    """Return the verdict and the findings; working agents first."""
    return _read_findings(request.app)


def _read_findings(app: App) -> Data:
    return _EXAMINED.get(_key(app), None, lambda: _examine(app))


def _examine(app: App) -> Data:
    at, found = int(time.time() * 1000), asyncio.run(examine(app))
    redact = app.redactor().text

    def show(checks: list[HealthCheck]) -> list[dict[str, Any]]:
        return [{**to_builtins(one), "detail": redact(one.detail), "fix": redact(one.fix)} for one in checks]

    present = {one.what for one in found.present}
    others = [one for one in found.checks if one.agent is not None and one.what not in present]
    return {
        "title": "Doctor",
        "at": at,
        "ready": found.verdict.ready,
        "verdict": redact(found.verdict.sentence),
        "next": redact(found.verdict.next),
        "exit_code": found.verdict.exit_code,
        "machine": show(found.machine),
        "agents": show(sorted(found.present, key=lambda one: not one.ok)),
        "absent": found.absent,
        "others": show(others),
    }


def _key(app: App) -> str:
    return f"{app.repo}\0{app.database()}"


async def check_again(app: App, _path: Mapping[str, str], _form: Mapping[str, str]) -> ActionResult:
    """Examine the machine again."""
    _EXAMINED.forget(_key(app))
    await asyncio.to_thread(_read_findings, app)
    return ActionResult("Checked again.", "/doctor")


def query_settings(request: PageRequest) -> Data:
    """Return the settings with value and origin, those that somebody set first."""
    redact = request.app.redactor().text
    rows = [
        {"setting": path, "value": redact(show(value)), "origin": origin}
        for path, value, origin in request.app.loaded.rows()
    ]
    return {"title": "Settings", "settings": sorted(rows, key=lambda row: row["origin"] == "default")}


PAGES = (
    PageRoute("/doctor", "doctor.html", "Doctor", query_doctor, menu="Doctor", slow=True),
    PageRoute("/settings", "settings.html", "Settings", query_settings, menu="Doctor"),
)
ACTIONS = (ActionRoute("/doctor/again", check_again),)
