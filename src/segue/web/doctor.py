"""The page of the doctor: what works on this machine, what does not, and what mends it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from segue.runtime.doctor import HealthCheck, examine
from segue.runtime.wiring import App
from segue.web.pages import Act, Asked, Data, Done, Page


class Checkup:
    """The last examination: it starts a dozen programs, so it is made once, and again when asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[int, list[HealthCheck]]] = {}

    def findings(self, app: App) -> tuple[int, list[HealthCheck]]:
        """When it was made, and what was found."""
        with self._lock:
            place = _place(app)
            if place not in self._known:
                self._known[place] = int(time.time() * 1000), asyncio.run(examine(app))
            return self._known[place]

    def forget(self, app: App) -> None:
        """Look again next time."""
        with self._lock:
            self._known.pop(_place(app), None)


_CHECKUP = Checkup()


def doctor(asked: Asked) -> Data:
    """What was found, what is needed and does not work first."""
    at, findings = _CHECKUP.findings(asked.app)
    redact = asked.app.redactor().text
    found = [_told(finding, redact) for finding in findings]
    return {
        "title": "Doctor",
        "at": at,
        "machine": [one for one in found if one["agent"] is None],
        "agents": sorted((one for one in found if one["agent"]), key=lambda one: not one["ok"]),
        "broken": [one["what"] for one in found if one["needed"] and not one["ok"]],
    }


def _told(finding: HealthCheck, redact: Any) -> dict[str, Any]:
    told = asdict(finding)
    return {**told, "detail": redact(finding.detail), "fix": redact(finding.fix)}


def _place(app: App) -> str:
    return f"{app.repo}\0{app.database()}"


async def look_again(app: App, _path: Mapping[str, str], _form: Mapping[str, str]) -> Done:
    """Examine the machine anew."""
    await asyncio.to_thread(_CHECKUP.forget, app)
    await asyncio.to_thread(_CHECKUP.findings, app)
    return Done("Looked again.", "/doctor")


PAGES = (Page("/doctor", "doctor.html", "Doctor", doctor, menu=True),)
ACTS = (Act("/doctor/again", look_again),)
