"""pytest and unittest: hooks that they load through environment variables."""

from __future__ import annotations

from collections.abc import Mapping

from segue.proof.report import Report
from segue.proof.runners.junit import read_junit
from segue.proof.runners.runner import Ended, Project, Stage, place_hook, read_reports

_QUIET = "-p no:cacheprovider --continue-on-collection-errors"


class Pytest:
    """Loads a plugin through PYTEST_ADDOPTS: make, npm and xdist pass it on."""

    name = "pytest"

    def applies(self, project: Project) -> bool:
        """Return whether there is any Python."""
        return _has_python(project)

    def arm(self, stage: Stage) -> Mapping[str, str]:
        """Copy the plugin under a random name."""
        plugin = place_hook(stage, "pytest_plugin.py", f"{stage.token}.py")
        return {"PYTEST_ADDOPTS": f"-p {plugin.stem} {_QUIET}", "PYTHONPATH": str(stage.hooks)}

    def read(self, stage: Stage, ended: Ended) -> Report | None:  # noqa: ARG002 - the plugin wrote it all
        """Return what the plugin wrote."""
        return read_reports(stage, stage.token, self.name)

    def clean(self, text: str) -> str:
        """Return the output; the plugin leaves no traces."""
        return text


class PytestJunit:
    """Asks pytest for JUnit XML, where PYTHONPATH is replaced and a plugin cannot be found."""

    name = "pytest (JUnit)"

    def applies(self, project: Project) -> bool:
        """Return whether there is any Python."""
        return _has_python(project)

    def arm(self, stage: Stage) -> Mapping[str, str]:
        """Ask for a report outside the tree."""
        return {"PYTEST_ADDOPTS": f"--junitxml={stage.reports}/{stage.token}.xml {_QUIET}"}

    def read(self, stage: Stage, ended: Ended) -> Report | None:  # noqa: ARG002 - pytest wrote it all
        """Return what pytest wrote."""
        return read_junit([stage.reports / f"{stage.token}.xml"], stage, self.name)

    def clean(self, text: str) -> str:
        """Return the output without the line that names the report."""
        return "\n".join(line for line in text.splitlines() if "generated xml file" not in line)


class Unittest:
    """Python loads sitecustomize from PYTHONPATH at its start."""

    name = "unittest"

    def applies(self, project: Project) -> bool:
        """Return whether there is any Python."""
        return _has_python(project)

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


def _has_python(project: Project) -> bool:
    return any(path.endswith(".py") for path in project.paths)
