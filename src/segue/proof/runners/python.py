"""pytest and unittest: hooks that they load through environment variables."""

from __future__ import annotations

from collections.abc import Mapping

from segue.proof.runners.junit import read_junit
from segue.proof.runners.runner import Project, Runner, Stage, copy_hook, place_hook, read_reports
from segue.system.beneath import read_below

_LAUNCHERS = {"TOX_OVERRIDE": "testenv.pass_env+=PYTEST_ADDOPTS,PYTHONPATH,NODE_OPTIONS"}
"""Tox hides variables from what it starts."""
_SETTINGS = ("pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg", "Makefile", "makefile")
_NO_CACHE = "-p no:cacheprovider"


def _has_python(project: Project) -> bool:
    return any(path.endswith(".py") for path in project.paths)


def _words(stage: Stage) -> str:
    """Return options for pytest: its cache is outside the tree, where the project does not go without one."""
    texts = (read_below(stage.tree, stage.tree / name) for name in _SETTINGS)
    has_none = any(b"no:cacheprovider" in text for text in (" ".join(stage.argv).encode(), *texts))
    cache = _NO_CACHE if has_none else f"-o cache_dir={stage.reports}/{stage.token}-cache"
    return f"{cache} --continue-on-collection-errors"


def _copy_probes(stage: Stage) -> Mapping[str, object]:
    """Copy what both ask the product, in one text; return what they need to know of it."""
    probes = copy_hook(stage, "probes.py", f"{stage.token}p.txt")
    apart = copy_hook(stage, "apart.py", f"{stage.token}q.txt")
    is_asked = stage.purpose.blind and stage.is_closed
    return {"probes": [probes.name, apart.name], "apart": is_asked}


def _arm_pytest(stage: Stage) -> Mapping[str, str]:
    """Copy the plugin under a random name."""
    words = f"-p {stage.token} {_words(stage)}"
    known = {**_copy_probes(stage), "words": words}
    place_hook(stage, "pytest_plugin.py", f"{stage.token}.py", known)
    return {"PYTEST_ADDOPTS": words, "PYTHONPATH": str(stage.hooks), **_LAUNCHERS}


PYTEST = Runner(
    "pytest", _has_python, _arm_pytest, lambda stage, _: read_reports(stage, stage.token, "pytest")
)
"""Loads a plugin through PYTEST_ADDOPTS: make, npm and xdist pass it on."""


def _arm_junit(stage: Stage) -> Mapping[str, str]:
    """Ask for a report outside the tree."""
    return {"PYTEST_ADDOPTS": f"--junitxml={stage.reports}/{stage.token}.xml {_words(stage)}", **_LAUNCHERS}


def _without_report(text: str) -> str:
    """Return the output without the line that names the report."""
    return "\n".join(line for line in text.splitlines() if "generated xml file" not in line)


PYTEST_JUNIT = Runner(
    "pytest (JUnit)",
    _has_python,
    _arm_junit,
    lambda stage, _: read_junit([stage.reports / f"{stage.token}.xml"], stage, "pytest (JUnit)"),
    _without_report,
)
"""Asks pytest for JUnit XML, where PYTHONPATH is replaced and a plugin cannot be found."""


def _arm_unittest(stage: Stage) -> Mapping[str, str]:
    """Copy the module."""
    site = place_hook(stage, "site.py", "sitecustomize.py", _copy_probes(stage))
    site.with_suffix(".json").rename(stage.hooks / "site.json")
    return {"PYTHONPATH": str(stage.hooks), **_LAUNCHERS}


UNITTEST = Runner(
    "unittest", _has_python, _arm_unittest, lambda stage, _: read_reports(stage, "sitecustomize", "unittest")
)
"""Python loads sitecustomize from PYTHONPATH at its start."""
