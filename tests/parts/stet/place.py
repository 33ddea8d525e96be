"""A git repository to review in, and a `stet` to review with."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from segue.parts.sim.launchers import write_launchers
from tests.reviewers.place import IDENTITY, Place, bare_environment

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
        write_launchers(place.stet.parent)
        place.play()
        return place

    def play(self, *findings: dict[str, str], **faults: Any) -> None:
        """Say what the stand-in for stet does from now on."""
        self.script.write_text(json.dumps({"findings": list(findings), "faults": faults}))

    def call(
        self, *arguments: str, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Call stet as a person would."""
        settings = {**IDENTITY, "SEGUE_SIM_STET": str(self.script), **(env or {})}
        return subprocess.run(
            [str(self.stet), *arguments],
            cwd=cwd or self.repo,
            env=bare_environment(**settings),
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
