"""pytest and unittest: hooks that they load through environment variables."""

from __future__ import annotations

from collections.abc import Mapping

from segue.proof.runners.junit import read_junit
from segue.proof.runners.runner import Project, Runner, Stage, place_hook, read_reports

_LAUNCHERS = {"TOX_OVERRIDE": "testenv.pass_env+=PYTEST_ADDOPTS,PYTHONPATH,NODE_OPTIONS"}
"""Tox hides variables from what it starts."""


def _has_python(project: Project) -> bool:
    return any(path.endswith(".py") for path in project.paths)


def _options(stage: Stage) -> str:
    """Return options for pytest: its cache is outside the tree."""
    return f"-o cache_dir={stage.reports}/{stage.token}-cache --continue-on-collection-errors"


def _arm_pytest(stage: Stage) -> Mapping[str, str]:
    """Copy the plugin under a random name."""
    words = f"-p {stage.token} {_options(stage)}"
    place_hook(stage, "pytest_plugin.py", f"{stage.token}.py", {"words": words})
    return {"PYTEST_ADDOPTS": words, "PYTHONPATH": str(stage.hooks), **_LAUNCHERS}


PYTEST = Runner(
    "pytest", _has_python, _arm_pytest, lambda stage, _: read_reports(stage, stage.token, "pytest")
)
"""Loads a plugin through PYTEST_ADDOPTS: make, npm and xdist pass it on."""


def _arm_junit(stage: Stage) -> Mapping[str, str]:
    return {"PYTEST_ADDOPTS": f"--junitxml={stage.reports}/{stage.token}.xml {_options(stage)}", **_LAUNCHERS}


PYTEST_JUNIT = Runner(
    "pytest (JUnit)",
    _has_python,
    _arm_junit,
    lambda stage, _: read_junit([stage.reports / f"{stage.token}.xml"], stage, "pytest (JUnit)"),
    lambda text: "\n".join(line for line in text.splitlines() if "generated xml file" not in line),
)
"""Asks pytest for JUnit XML, where PYTHONPATH is replaced and a plugin cannot be found."""


def _arm_unittest(stage: Stage) -> Mapping[str, str]:
    site = place_hook(stage, "site.py", "sitecustomize.py")
    site.with_suffix(".json").rename(stage.hooks / "site.json")
    return {"PYTHONPATH": str(stage.hooks), **_LAUNCHERS}


UNITTEST = Runner(
    "unittest", _has_python, _arm_unittest, lambda stage, _: read_reports(stage, "sitecustomize", "unittest")
)
"""Python loads sitecustomize from PYTHONPATH at its start."""
