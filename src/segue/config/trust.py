"""Trust: which settings of a project's file count only after a person has allowed them.

Settings are powerful unless they are listed as harmless here: what is new is safe. A powerful one may start
programs, open connections, move files, let agents do more, or ask for less proof. What was allowed is
remembered outside of the project, by the path of the file and a digest of each of these settings.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from segue.config.files import is_foreign
from segue.config.settings import Settings
from segue.domain.amounts import list_some
from segue.domain.errors import UsageError
from segue.domain.options import PROJECT_FILES
from segue.plugins import TABLES, FeatureTable
from segue.system.reading import UnsafeFile, read_file, work_tree

VARIABLE = "SEGUE_TRUST"
"""Set to 1, it allows what the project's file says, in this process and those that it starts."""

HARMLESS = frozenset(
    (
        *("agent", "model", "source", "commit", "worktree", "jobs", "replan"),
        "log.format",
    )
)
"""Settings that take effect without trust: none makes weak work look better, or lets agents do more."""

CONFINED = HARMLESS | frozenset(
    (
        *("flow", "allow_dirty", "base", "worktree_end", "follow_rounds", "allow_no_change"),
        *("judged_by", "require"),
        *("ignore_checklists", "control_files", "known_failures", "check_timeout", "plan_changed"),
        *("on_failure", "max_consecutive_task_failures", "gates", "proof.independent"),
        *("proof.exam_rounds", "proof.exam_cost_usd"),
        *("proof.mutants", "proof.sharpness", "proof.mutant_seconds", "judge.timeout"),
        *("judge.max_evidence_bytes", "diagnostics.timeout"),
        *("limits.phase_timeout", "limits.idle_timeout", "limits.run_timeout", "limits.kill_grace"),
        "limits.stuck",
        *("limits.attempts", "limits.resolutions", "limits.replans", "limits.patience", "limits.slots"),
        *(
            "limits.output_bytes",
            "limits.kept_bytes",
            "limits.handover_bytes",
            "kinds.*",
            "roles.*",
            "escalate_to.*",
            "escalate",
            "review.*",
            "flows.*",
        ),
    )
)
"""Settings that reach no program, address or place, but may decide what counts as done; `*` stands for
everything in a table. Whoever submits a run to a fleet may choose them."""

_MOST_REMEMBERED = 20
"""Versions of a file's settings that stay trusted: those of its branches, as a rule."""
_MOST_NAMED = 6


class ProjectFile(Struct, frozen=True):
    """The powerful settings of a project's file, and how far they are trusted."""

    path: Path
    powerful: Mapping[str, Any]
    """By dotted name."""
    held: tuple[str, ...] = ()
    """Those that are not in force: nobody has allowed them as they are."""
    removed: tuple[str, ...] = ()
    """Those that were allowed and are not in the file any more."""
    known: bool = False
    """Whether an earlier version of the file was trusted."""

    @property
    def is_trusted(self) -> bool:
        """Whether a person has allowed exactly these settings."""
        return not self.held and not self.removed

    def describe_briefly(self) -> str:
        """Say what is not in force, where nothing is refused for it."""
        names = list_some([*self.held, *(f"{name} (removed)" for name in self.removed)], _MOST_NAMED)
        return f"Not in force before you trust {self.path}: {names}."

    def describe(self) -> str:
        """Say what is not in force, and why."""
        names = list_some([*self.held, *(f"{name} (removed)" for name in self.removed)], _MOST_NAMED)
        if self.known:
            return f"{self.path} was changed since you trusted it: {names}."
        what = "start programs, open connections, or decide where things are kept and what counts as done"
        return f"{self.path} needs your trust before its settings may {what}: {names}."


class Untrusted(UsageError):
    """The project's file asks for what a person has not allowed."""

    def __init__(self, project: ProjectFile) -> None:
        super().__init__(
            project.describe(),
            kept="Nothing was started.",
            hint=f"{trust_command(project.path)}   (shows them and asks; in CI: {VARIABLE}=1)",
        )
        self.project = project


def trust_command(file: Path) -> str:
    """Return the command that allows the settings of a file, to be typed anywhere."""
    from shlex import quote

    if file.name in ("segue.toml", "pyproject.toml"):
        return f"segue trust --repo {quote(str(file.parent))}"
    return f"segue trust --config {quote(str(file))}"


def is_harmless(name: str, value: Any) -> bool:
    """Return whether a setting takes effect without trust."""
    return _is_among(HARMLESS, name, value)


def is_confined(name: str, value: Any) -> bool:
    """Return whether a setting has no effect outside of its run."""
    return _is_among(CONFINED, name, value)


def _is_among(names: frozenset[str], name: str, value: Any) -> bool:
    if name == "source":
        return _stays_inside(value)
    names = names | _of_feature(name, names is HARMLESS)
    if value == {}:
        return any(known.startswith(f"{name}.") for known in names)
    tables = name.split(".")[:-1]
    return name in names or any(f"{'.'.join(tables[:end])}.*" in names for end in range(1, len(tables) + 1))


def _of_feature(name: str, harmless: bool) -> frozenset[str]:
    """Return what the feature says whose setting this is; those of the core are listed above."""
    table = _feature_table(name)
    if table is None:
        return frozenset()
    named = table.harmless if harmless else (*table.harmless, *table.confined)
    return frozenset(f"{name.partition('.')[0]}.{one}" for one in named)


def _feature_table(name: str) -> FeatureTable | None:
    first = name.partition(".")[0]
    return None if first in Settings.__struct_encode_fields__ else TABLES.get(first)


def _stays_inside(value: Any) -> bool:
    """Return whether a path leads to a file of the project, as far as its text says."""
    text = value if isinstance(value, str) else "/"
    return not text.startswith(("/", "~", "\\")) and ".." not in Path(text).parts and ":" not in text


def examine(file: Path, values: Iterable[tuple[str, Any]]) -> ProjectFile:
    """Compare the settings of a project's file with what was allowed."""
    powerful = {name: value for name, value in values if not is_harmless(name, value)}
    allowed = TrustedFiles().read(file)
    digests = _digest(powerful)
    if digests in allowed or not (allowed or powerful):
        return ProjectFile(file, powerful, known=bool(allowed))
    last = allowed[-1] if allowed else {}
    held = tuple(name for name in powerful if last.get(name) != digests[name])
    removed = tuple(name for name in last if name not in powerful)
    return ProjectFile(file, powerful, held, removed, known=bool(allowed))


def find_lost(start: Path) -> ProjectFile | None:
    """Return a trusted file, at `start` or above in its work tree, that is gone with all its settings."""
    top, notes = work_tree(start), TrustedFiles()
    if not notes.path.exists():
        return None
    folders = [one for one in (start, *start.parents) if one.is_relative_to(top)]
    files = (folder / name for folder in folders for name in PROJECT_FILES)
    return next((examine(file, ()) for file in files if any(notes.read(file)[-1:])), None)


def _digest(powerful: Mapping[str, Any]) -> dict[str, str]:
    import hashlib

    return {
        name: hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()
        for name, value in powerful.items()
    }


class TrustedFiles:
    """The user's note of what was allowed, in their state folder: no setting moves it."""

    def __init__(self) -> None:
        import platformdirs

        try:
            self.path = platformdirs.user_state_path("segue") / "trusted.json"
        except RuntimeError as error:
            raise UsageError(
                f"There is no home folder: {error}.", hint="Set HOME to one of your folders."
            ) from None

    def read(self, file: Path) -> list[dict[str, str]]:
        """Return the versions of a file's settings that were allowed, the latest last."""
        found = self._load().get(_key(file))
        return [one["settings"] for one in found] if found else []

    def allow(self, project: ProjectFile) -> None:
        """Remember that a person allowed these settings."""
        settings = _digest(project.powerful)
        with self._changing() as files:
            kept = [one for one in files.get(_key(project.path), []) if one["settings"] != settings]
            files[_key(project.path)] = [*kept, {"settings": settings, "at": int(time.time())}][
                -_MOST_REMEMBERED:
            ]

    def forget(self, file: Path) -> bool:
        """Forget all that was allowed for a file; return whether there was anything."""
        with self._changing() as files:
            return files.pop(_key(file), None) is not None

    @contextlib.contextmanager
    def _changing(self) -> Any:
        from segue.system.files import exclusive, private_folder, write_atomic

        private_folder(self.path.parent)
        with exclusive(self.path.with_suffix(".lock")):
            files = self._load()
            yield files
            write_atomic(self.path, json.dumps({"schema": 1, "files": files}, indent=1).encode())

    def _load(self) -> dict[str, Any]:
        """Read the note; one that is damaged or that somebody else owns allows nothing."""
        try:
            if is_foreign(self.path):
                return {}
            files = json.loads(read_file(self.path))["files"]
            return {file: found for file, found in files.items() if _is_sound(found)}
        except (OSError, UnsafeFile, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return {}


def _is_sound(found: Any) -> bool:
    return isinstance(found, list) and all(isinstance(one.get("settings"), dict) for one in found)


def _key(file: Path) -> str:
    return os.path.realpath(file)


_MEANINGS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("agents", "acp"), "starts programs as agents, with these options and variables"),
    (("checks", "check_setup", "check_teardown", "smoke"), "runs commands to check the work"),
    (("final", "reviewers"), "runs commands before, beside and after the work"),
    (("git",), "decides which hooks are checked, and which programs git starts"),
    (("proof.scenarios",), "starts the finished program and sends it requests"),
    (
        ("state_dir", "database_url", "repo", "source", "log"),
        "decides where Segue reads and writes",
    ),
    (
        ("judge", "judges", "github"),
        "sends work and questions to services, with your keys",
    ),
    (("sources", "source_kind"), "reads tasks through a plug-in"),
    (
        (
            *("require", "judged_by", "gates", "allow_no_change", "known_failures"),
            *(
                "control_files",
                "flow",
                "flows",
                "kinds",
                "roles",
                "escalate",
                "escalate_to",
                "review",
                "proof",
                "ignore_checklists",
            ),
            *("plan_changed", "check_timeout"),
        ),
        "decides what counts as done, and who says so",
    ),
    (
        ("check_network", "diagnostics", "isolation", "sandbox", "limits", "gc"),
        "changes what agents may do, use and delete",
    ),
)
_OTHER = "changes how Segue works"


def explain(names: Iterable[str]) -> dict[str, list[str]]:
    """Sort settings by what they do, in plain words."""
    found: dict[str, list[str]] = {}
    wanted = list(names)
    for tables, meaning in _MEANINGS:
        for name in [one for one in wanted if any(_is_in(one, table) for table in tables)]:
            found.setdefault(meaning, []).append(name)
            wanted.remove(name)
    for name in wanted:
        table = _feature_table(name)
        found.setdefault(table.meaning if table else _OTHER, []).append(name)
    return found


def _is_in(name: str, table: str) -> bool:
    return name == table or name.startswith(f"{table}.")
