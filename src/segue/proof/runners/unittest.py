"""unittest: a sitecustomize module that watches its runner."""

from __future__ import annotations

from collections.abc import Mapping

from segue.proof.report import Report
from segue.proof.runners.records import place_hook, read_reports
from segue.proof.runners.runner import Ended, Project, Stage


class Unittest:
    """Python loads sitecustomize from PYTHONPATH at its start."""

    name = "unittest"

    def applies(self, project: Project) -> bool:
        """Return whether there is any Python."""
        return any(path.endswith(".py") for path in project.paths)

    def arm(self, stage: Stage) -> Mapping[str, str]:
        """Copy the module."""
        site = place_hook(stage, "site.py", "sitecustomize.py")
        site.with_suffix(".json").rename(stage.hooks / "site.json")
        return {"PYTHONPATH": str(stage.hooks)}

    def read(self, stage: Stage, ended: Ended) -> Report | None:  # noqa: ARG002 - the module wrote it all
        """Return what the module wrote."""
        return read_reports(stage, "sitecustomize", self.name)

    def clean(self, text: str) -> str:
        """Return the output; the module leaves no traces."""
        return text
