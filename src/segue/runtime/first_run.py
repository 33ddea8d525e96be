"""Finds what a run needs and nobody has named: the source, the agent, and a command for the checks."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from segue.domain.run import USUAL_RUNS
from segue.plugins import VARIANTS
from segue.runtime.app import App
from segue.runtime.wiring import agent_names
from segue.sources.recognise import any_feature, has_specify
from segue.system.programs import find_inside
from segue.system.reading import UnsafeFile, read_file, work_tree

if TYPE_CHECKING:
    from segue.runtime.doctor import AgentReport
    from segue.runtime.sources import FoundSource

_PREFERRED = ("claude", "codex", "cursor", "gemini", "copilot", "opencode", "qwen")
"""Agents that are used without being named, the first of them that is ready."""
_SIGNS = {
    "claude": ("CLAUDE.md", ".claude"),
    "codex": (".codex",),
    "cursor": (".cursor", ".cursorrules"),
    "gemini": ("GEMINI.md", ".gemini"),
    "copilot": (".github/copilot-instructions.md",),
    "qwen": ("QWEN.md", ".qwen"),
    "opencode": ("opencode.json", ".opencode"),
}
"""Files of a project that are written for one agent."""
_NOT_PLANS = frozenset(
    (
        *("readme", "changelog", "contributing", "security", "code_of_conduct", "license", "history"),
        *("agents", "claude", "gemini", "qwen", "architecture", "roadmap", "releasing", "support"),
    )
)
"""Files that may have lists of boxes and are still no plans."""
_MOST_RUNS = 20


class FoundAgent(Struct, frozen=True):
    """The agent that a run would use, and why this one."""

    name: str
    report: AgentReport
    why: str
    others: tuple[str, ...] = ()
    """Other agents that are ready."""


def needs_source(app: App, named: str | None) -> bool:
    """Return whether nothing says what to run: no name, no setting, and no Spec Kit that chooses."""
    if named is not None or app.loaded.settings.source is not None:
        return False
    root = work_tree(app.repo)
    # Where an agent is chosen, this is no first run: then a feature comes before other sources.
    return not (has_specify(root) or (not needs_agent(app) and any_feature(Path.cwd(), root)))


def needs_agent(app: App) -> bool:
    """Return whether nothing says who does the work."""
    settings = app.loaded.settings
    return not (settings.agent or settings.roles.execute)


def list_sources(app: App) -> list[FoundSource]:
    """Return the sources of a repository, those with something to do first; unlikely ones are left out."""
    from segue.runtime.sources import find_sources

    found = [one for one in find_sources(app) if _is_likely(one)]
    return sorted(found, key=lambda one: one.tasks == one.done)


def name_from_here(app: App, found: FoundSource) -> str:
    """Return the source as it is named on a command line in the current folder."""
    path = work_tree(app.repo) / found.source
    return os.path.relpath(path) if path.exists() else found.source


def find_agent(app: App) -> tuple[FoundAgent | None, list[AgentReport]]:
    """Return the agent to use, and what is known about all that could be."""
    from segue.runtime.doctor import agent_reports  # it imports agents, which a run that names one need not

    reports = rank_agents(app, agent_reports(app, _candidates(app)))
    return choose_ready(app, reports), reports


def rank_agents(app: App, reports: Iterable[AgentReport]) -> list[AgentReport]:
    """Return what is known about the agents that may be chosen unasked, the preferred ones first."""
    # Who works elsewhere and asks for money there is never chosen unasked.
    known = {report.name: report for report in reports if "cloud" not in report.can}
    return [known[name] for name in _candidates(app) if name in known]


def choose_ready(app: App, reports: Sequence[AgentReport]) -> FoundAgent | None:
    """Return the one to use of the agents that are ready; None if none is."""
    ready = {report.name: report for report in reports if report.ready}
    if not ready:
        return None
    name, why = _choose(app, ready, _configured(app))
    return FoundAgent(name, ready[name], why, tuple(one for one in ready if one != name))


def _candidates(app: App) -> list[str]:
    return list(dict.fromkeys([*_configured(app), *_PREFERRED]))


def _configured(app: App) -> list[str]:
    """Return the agents that the settings or other packages bring."""
    own = [name for name in agent_names(app.loaded) if name not in VARIANTS["agents"]]
    return [*own, *(name for name in app.loaded.settings.agents if name != "scripted")]  # it rehearses


def _choose(app: App, ready: dict[str, AgentReport], configured: Sequence[str]) -> tuple[str, str]:
    """Return one of the agents that are ready, and the reason."""
    if len(ready) == 1:
        return next(iter(ready)), "the only one that is ready here"
    if used := next((name for name in _used_before(app) if name in ready), None):
        return used, "used here last"
    if named := next((name for name in configured if name in ready), None):
        return named, "the settings have a table for it"
    root = work_tree(app.repo)
    for name, signs in _SIGNS.items():
        sign = next((sign for sign in signs if (root / sign).exists()), None)
        if sign is not None and name in ready:
            return name, f"the project has {sign}"
    known = [name for name, report in ready.items() if report.login not in (None, "not known")]
    return next(iter([*known, *ready])), "the first that is ready"


def _used_before(app: App) -> list[str]:
    """Return the agents of earlier runs in this repository, the latest first."""
    root = str(work_tree(app.repo))
    if "://" not in app.database() and not Path(app.database()).exists():
        return []
    with app.store(read_only=True) as store:
        runs = store.runs(limit=_MOST_RUNS, kinds=USUAL_RUNS)
    return [run.spec.agent.split(",")[0].split(":")[0] for run in runs if run.spec.repo == root]


def _is_likely(found: FoundSource) -> bool:
    path = Path(found.source)
    return path.suffix != ".md" or path.stem.lower().replace("-", "_") not in _NOT_PLANS


_LARGEST = 1024**2
_NO_TESTS = "no test specified"
"""What npm writes into scripts.test of every new project."""
_MAKE_TARGET = re.compile(r"(?m)^test\s*:(?!=)")
_MANAGERS = {"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn", "bun.lock": "bun", "bun.lockb": "bun"}


class SuggestedCheck(Struct, frozen=True):
    """A command that probably runs the tests, and what suggests it."""

    command: str
    why: str
    missing: str = ""
    """The program that the command needs and that is not installed here; empty if there is none."""


def suggest_check(root: Path) -> SuggestedCheck | None:
    """Return the command for the tests of a project; None if its files name none."""
    return next((found for look in _LOOKS if (found := look(root)) is not None), None)


def _python(root: Path) -> SuggestedCheck | None:
    named = next((name for name in ("pytest.ini", "conftest.py") if (root / name).is_file()), "")
    if not named:
        texts = {name: _read(root / name, root) for name in ("pyproject.toml", "setup.cfg", "tox.ini")}
        named = next((name for name, text in texts.items() if "pytest" in text), "")
    if not named and next(iter(sorted((root / "tests").glob("test_*.py"))), None):
        named = "tests/test_*.py"
    if not named:
        return None
    if (root / ".venv/bin/pytest").is_file():
        return SuggestedCheck(".venv/bin/pytest -q", named)
    return _suggest("pytest -q", named)


def _javascript(root: Path) -> SuggestedCheck | None:
    try:
        test = json.loads(_read(root / "package.json", root) or "{}")["scripts"]["test"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if not isinstance(test, str) or not test.strip() or _NO_TESTS in test:
        return None
    manager = next((name for lock, name in _MANAGERS.items() if (root / lock).is_file()), "npm")
    return _suggest(f"{manager} run test", "scripts.test of package.json")


def _rust(root: Path) -> SuggestedCheck | None:
    try:
        cargo = tomllib.loads(_read(root / "Cargo.toml", root))
    except (tomllib.TOMLDecodeError, RecursionError):
        return None
    if not cargo:
        return None
    return _suggest("cargo test --workspace" if "workspace" in cargo else "cargo test", "Cargo.toml")


def _go(root: Path) -> SuggestedCheck | None:
    return _suggest("go test ./...", "go.mod") if (root / "go.mod").is_file() else None


def _make(root: Path) -> SuggestedCheck | None:
    names = ("GNUmakefile", "makefile", "Makefile")
    named = next((name for name in names if _MAKE_TARGET.search(_read(root / name, root))), None)
    return _suggest("make test", f"the target `test` of {named}") if named else None


_LOOKS: tuple[Callable[[Path], SuggestedCheck | None], ...] = (_python, _javascript, _rust, _go, _make)
"""How to recognise each kind of project, in the order in which they are tried."""


def _suggest(command: str, why: str) -> SuggestedCheck:
    program = command.split()[0]
    return SuggestedCheck(command, why, "" if find_inside(program) else program)


def _read(path: Path, root: Path) -> str:
    """Return the text of a file in the project; empty if there is none that can be read."""
    try:
        return read_file(path, root, _LARGEST).decode("utf-8", "replace")
    except (OSError, UnsafeFile, ValueError):
        return ""
