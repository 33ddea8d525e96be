"""A git repository to review in, and a `stet` to review with."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

from segue.domain.options import read_options
from segue.domain.verdict import Review
from segue.ports import Reviewer
from segue.reviewers.stet.reviewer import StetOptions, StetReviewer
from segue.system.services import Services
from tests.fakes.stet import write_program
from tests.reviewers.place import Place
from tests.services import make_services

SECRET = "sk-not-for-your-eyes-0123456789"
EVAL = {
    "pattern": r"eval\(",
    "unless": "checked",
    "severity": "error",
    "category": "security",
    "message": "eval on <input>",
    "suggestion": "Use ast.literal_eval.",
}


@dataclass
class StetPlace(Place):
    """Where a test works that calls stet."""

    @property
    def script(self) -> Path:
        return self.root / "script.json"

    @property
    def stet(self) -> Path:
        return self.root / "bin" / "stet"

    @classmethod
    def make(cls, root: Path) -> Self:
        place = super().make(root)
        write_program(place.stet.parent, place.script)
        return place

    def play(self, *findings: dict[str, str], **faults: Any) -> None:
        """Say what the stand-in for stet does from now on."""
        self.script.write_text(json.dumps({"findings": list(findings), "faults": faults}))


def reviewer(place: StetPlace, **options: Any) -> StetReviewer:
    """A new object, as after a restart."""
    chosen = read_options(StetOptions, {"cmd": str(place.stet), **options})
    return StetReviewer(chosen, make_services(place.repo, state_dir=place.root / "state", secrets=[SECRET]))


def review(place: StetPlace, base: str, again: bool = False, task: str = "1", **options: Any) -> Review:
    return asyncio.run(reviewer(place, **options).review(place.subject(base, task), again))


def with_stet(stet: Path) -> Callable[[Services], Reviewer]:
    return partial(StetReviewer, read_options(StetOptions, {"cmd": str(stet)}))
