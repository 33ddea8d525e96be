"""The page of the doctor: what works on this machine, what does not, and how to fix it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from segue.runtime.app import App
from segue.runtime.doctor import HealthCheck, examine
from segue.web.routes import ActionResult, ActionRoute, Data, PageRequest, PageRoute


class DoctorCache:
    """The last examination: it starts a dozen programs, so it runs once, and again on request."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[int, list[HealthCheck]]] = {}

    def findings(self, app: App) -> tuple[int, list[HealthCheck]]:
        """Return when the machine was examined, and the findings."""
        with self._lock:
            place = _key(app)
            if place not in self._known:
                self._known[place] = int(time.time() * 1000), asyncio.run(examine(app))
            return self._known[place]

    def forget(self, app: App) -> None:
        """Examine again next time."""
        with self._lock:
            self._known.pop(_key(app), None)


_CACHE = DoctorCache()


def query_doctor(request: PageRequest) -> Data:
    """Return the findings; working agents first."""
    at, findings = _CACHE.findings(request.app)
    redact = request.app.redactor().text
    found = [_redact(finding, redact) for finding in findings]
    return {
        "title": "Doctor",
        "at": at,
        "machine": [one for one in found if one["agent"] is None],
        "agents": sorted((one for one in found if one["agent"]), key=lambda one: not one["ok"]),
        "broken": [one["what"] for one in found if one["needed"] and not one["ok"]],
    }


def _redact(finding: HealthCheck, redact: Any) -> dict[str, Any]:
    return {**asdict(finding), "detail": redact(finding.detail), "fix": redact(finding.fix)}


def _key(app: App) -> str:
    return f"{app.repo}\0{app.database()}"


async def check_again(app: App, _path: Mapping[str, str], _form: Mapping[str, str]) -> ActionResult:
    """Examine the machine again."""
    await asyncio.to_thread(_CACHE.forget, app)
    await asyncio.to_thread(_CACHE.findings, app)
    return ActionResult("Checked again.", "/doctor")


PAGES = (PageRoute("/doctor", "doctor.html", "Doctor", query_doctor, menu=True),)
ACTIONS = (ActionRoute("/doctor/again", check_again),)
