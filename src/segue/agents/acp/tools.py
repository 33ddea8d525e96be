"""Names what an ACP agent does with tools, and says whether it may; the standard library alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from segue.agents.cursor.tools import bounded, clip, table

_NAMES = {
    "read": "Read",
    "edit": "Edit",
    "delete": "Delete",
    "move": "Move",
    "search": "Search",
    "execute": "Bash",
    "think": "Think",
    "fetch": "WebFetch",
    "switch_mode": "SwitchMode",
}
_READING = frozenset({"read", "search", "think"})
_CHANGING = frozenset({"edit", "delete", "move"})
_WEB_SEARCH = re.compile(r"web[ _-]?search|search(?:ing|es)? (?:on )?the web|google_web", re.IGNORECASE)
_WORD = re.compile(r"[\w.:-]{1,60}")
_NEW_CONTENT = ("content", "contents", "file_text", "fileText")
_OLD_CONTENT = ("old_string", "oldString", "old_str", "patch", "diff", "edits")


@dataclass(slots=True)
class ToolCall:
    """What is known of one call so far: updates bring what is new, in any order."""

    id: str
    facts: dict[str, Any] = field(default_factory=dict)
    rejected: bool = False

    def learn(self, update: Mapping[str, Any]) -> None:
        """Take over what an update says; what it leaves out stays."""
        for key in ("kind", "title", "status", "rawInput", "rawOutput", "content", "locations"):
            if update.get(key) is not None:
                self.facts[key] = update[key]
                self.facts.setdefault(f"first {key}", update[key])

    @property
    def kind(self) -> str:
        """The protocol's word for what the tool does."""
        kind = self.facts.get("kind")
        return kind if isinstance(kind, str) and kind else "other"

    @property
    def title(self) -> str:
        """What the agent shows to people."""
        title = self.facts.get("title")
        return title if isinstance(title, str) else ""

    @property
    def ended(self) -> bool:
        """Whether it will not be heard of again."""
        return self.facts.get("status") in ("completed", "failed")

    def name(self) -> str:
        """The name all agents share, if the tool has one; else what it is called."""
        if _WEB_SEARCH.search(f"{self.id} {self.title}") and self.kind in ("search", "fetch", "other"):
            return "WebSearch"
        if self.kind == "edit" and self._is_new():
            return "Write"
        if self.kind in _NAMES:
            return _NAMES[self.kind]
        return self.title if _WORD.fullmatch(self.title) else "Other"

    def _is_new(self) -> bool:
        """Whether a whole file is written, not a part of it changed."""
        given = table(self.facts.get("rawInput"))
        if self.facts.get("first title") == "write":  # the tool's name in OpenCode, which then shows a diff
            return True
        if any(key in given for key in _OLD_CONTENT):
            return False
        if any(key in given for key in _NEW_CONTENT):
            return True
        diffs = [part for part in self._parts() if part.get("type") == "diff"]
        return bool(diffs) and all(not part.get("oldText") for part in diffs)

    def _parts(self) -> list[Mapping[str, Any]]:
        content = self.facts.get("content")
        return [table(part) for part in content] if isinstance(content, list) else []

    def line(self, state: str) -> dict[str, Any]:
        """What the driver prints of it."""
        data = {"type": "tool", "state": state, "id": clip(self.id, 200), "name": clip(self.name(), 200)}
        data |= {"kind": clip(self.kind, 100), "title": clip(self.title, 400), "input": self._input()}
        if state == "completed":
            data |= {"status": self._status(), "result": bounded(self._result())}
        return data

    def _input(self) -> Any:
        given = self.facts.get("rawInput")
        if given:
            return bounded(given)
        if self.kind == "execute" and self.title:
            return bounded({"command": self.title})  # Gemini shows it to people and tells it to nobody
        locations = self.facts.get("locations")
        return bounded({"locations": locations}) if locations else {}

    def _status(self) -> str:
        if self.facts.get("status") == "completed" and not self.rejected:
            return "success"
        return "rejected" if self.rejected else "failure"

    def _result(self) -> Any:
        output = self.facts.get("rawOutput")
        return output if output is not None else self.facts.get("content")


def may(kind: str, policy: str) -> bool:
    """Whether the policy allows a tool of this kind; what has no known kind may do anything."""
    if policy == "all":
        return True
    return kind in _READING or (policy == "edits" and kind in _CHANGING)


def chosen(options: Any, allowed: bool) -> str | None:
    """The option that says yes or no for this once, or else for ever; None when there is no such option."""
    word = "allow" if allowed else "reject"
    offered = [table(option) for option in options] if isinstance(options, list) else []
    for kind in (f"{word}_once", f"{word}_always"):
        for option in offered:
            if option.get("kind") == kind and isinstance(option.get("optionId"), str):
                found: str = option["optionId"]
                return found
    return None
