"""What the Spec Kit project around a feature asks for: hooks of extensions, checklists, the next command."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from segue.domain.errors import SourceError
from segue.domain.source import HookTime, SourceHook
from segue.sources.speckit.files import read_parsed
from segue.sources.speckit.spec import parse_constitution
from segue.system.reading import UnsafeFile, read_file

_ITEM = re.compile(r"\s*[-*+] \[([ xX])\]\s*(.*)")
_MOST_ITEMS = 3
_LONGEST_ITEM = 80
_EVENTS = {HookTime.BEFORE: "before_implement", HookTime.AFTER: "after_implement"}


class _Entry(msgspec.Struct):
    """A hook in extensions.yml; what is not named has Spec Kit's default."""

    command: str
    extension: str = ""
    optional: bool = True
    enabled: bool = True
    description: str | None = None
    condition: str | None = None


class _Hooks(msgspec.Struct):
    before_implement: list[_Entry] | None = None
    after_implement: list[_Entry] | None = None


class _Extensions(msgspec.Struct):
    hooks: _Hooks | None = None


class SpecKitProject(msgspec.Struct, frozen=True):
    """The project that a feature belongs to: the folder with `.specify` in it."""

    root: Path

    @property
    def law(self) -> Path:
        """The constitution."""
        return self.root / ".specify" / "memory" / "constitution.md"

    def constitution(self) -> str:
        """Return what the constitution says; nothing if there is none."""
        return read_parsed(self.law, self.root, parse_constitution, "")

    @property
    def journal(self) -> Path:
        """The folder in which Spec Kit's workflow engine keeps its runs."""
        return self.root / ".specify" / "workflows" / "runs"

    def hooks(self) -> tuple[SourceHook, ...]:
        """Return the hooks of `/implement` that are switched on; those with a condition are Spec Kit's."""
        path = self.root / ".specify" / "extensions.yml"
        try:
            found = msgspec.yaml.decode(read_file(path, self.root), type=_Extensions | None, strict=False)
        except FileNotFoundError:
            return ()
        except (OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
            raise SourceError(
                f"{path} cannot be read, and it may name hooks that must run: {error}.",
                kept="Nothing was started.",
                hint="Repair the file, for example with: specify extension list",
            ) from error
        hooks = (found.hooks if found else None) or _Hooks()
        return tuple(
            SourceHook(entry.command, when, not entry.optional, _describe(entry))
            for when, event in _EVENTS.items()
            for entry in getattr(hooks, event) or ()
            if entry.enabled and not entry.condition
        )

    def next_step(self) -> str:
        """Return what to do when all tasks are done; nothing where Spec Kit is not set up."""
        if not (self.root / ".specify").is_dir():
            return ""
        converge = f"/speckit{self._separator()}converge"
        lacking = "appends to tasks.md what the spec asks for and the code lacks"
        return f"All tasks are done. In your agent, {converge} {lacking}; then run segue again."

    def _separator(self) -> str:
        """Return what is between `speckit` and the name of a command in the agent of this project."""
        path = self.root / ".specify" / "integration.json"
        try:
            found: Any = msgspec.json.decode(read_file(path, self.root))
            settings = found["integration_settings"][found["default_integration"]]
            return str(settings["invoke_separator"])
        except (OSError, UnsafeFile, msgspec.DecodeError, KeyError, TypeError):
            return "."


def _describe(entry: _Entry) -> str:
    return ": ".join(filter(None, (entry.extension, entry.description)))


def open_checklists(folder: Path, inside: Path) -> Iterator[str]:
    """Yield a line for each checklist of a feature that has unchecked items."""
    for path in sorted((folder / "checklists").glob("*.md")):
        text = read_file(path, inside).decode("utf-8", "replace")
        items = [found for line in text.splitlines() if (found := _ITEM.match(line))]
        unchecked = [found[2].strip()[:_LONGEST_ITEM] for found in items if found[1] == " "]
        if unchecked:
            more = "; …" if len(unchecked) > _MOST_ITEMS else ""
            named = "; ".join(unchecked[:_MOST_ITEMS]) + more
            yield f"{path.name} has {len(unchecked)} unchecked of {len(items)} items ({named})"


def name_in(repo: Path, path: Path) -> str:
    """Return a path as an agent in the repository names it."""
    return path.relative_to(repo).as_posix() if path.is_relative_to(repo) else str(path)
