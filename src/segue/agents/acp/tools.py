"""Name what an ACP agent does with tools, and decide what it may do. Standard library only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from segue.agents.local.values import as_list, as_table, as_text, clip, shrink

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


class AcpToolCall:
    """What is known about one call so far; updates add to it in any order."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.facts: dict[str, Any] = {}
        self.rejected = False

    def learn(self, update: Mapping[str, Any]) -> None:
        """Take over what an update says; keep what it leaves out."""
        for key in ("kind", "title", "status", "rawInput", "rawOutput", "content", "locations"):
            if update.get(key) is not None:
                self.facts[key] = update[key]
                self.facts.setdefault(f"first {key}", update[key])

    @property
    def kind(self) -> str:
        """The protocol's word for what the tool does."""
        return as_text(self.facts.get("kind")) or "other"

    @property
    def title(self) -> str:
        """The text that the agent shows to people."""
        return as_text(self.facts.get("title"))

    @property
    def is_over(self) -> bool:
        """True if no more updates will come."""
        return self.facts.get("status") in ("completed", "failed")

    def name(self) -> str:
        """Return the name that all agents share for such a tool, or else what the agent calls it."""
        if _WEB_SEARCH.search(f"{self.id} {self.title}") and self.kind in ("search", "fetch", "other"):
            return "WebSearch"
        if self.kind == "edit" and self._is_new():
            return "Write"
        if self.kind in _NAMES:
            return _NAMES[self.kind]
        return self.title if _WORD.fullmatch(self.title) else "Other"

    def _is_new(self) -> bool:
        """Return whether a whole file is written, not a part of it changed."""
        given = as_table(self.facts.get("rawInput"))
        if self.facts.get("first title") == "write":  # OpenCode names the tool first and shows a diff later
            return True
        if any(key in given for key in _OLD_CONTENT):
            return False
        if any(key in given for key in _NEW_CONTENT):
            return True
        parts = map(as_table, as_list(self.facts.get("content")))
        diffs = [part for part in parts if part.get("type") == "diff"]
        return bool(diffs) and all(not part.get("oldText") for part in diffs)

    def line(self, state: str) -> dict[str, Any]:
        """Return what the driver prints about it."""
        data = {"type": "tool", "state": state, "id": clip(self.id, 200), "name": clip(self.name(), 200)}
        data |= {"kind": clip(self.kind, 100), "title": clip(self.title, 400), "input": self._input()}
        if state == "completed":
            output = self.facts.get("rawOutput")
            result = output if output is not None else self.facts.get("content")
            data |= {"status": self._status(), "result": shrink(result)}
        return data

    def _input(self) -> Any:
        given = self.facts.get("rawInput")
        if given:
            return shrink(given)
        if self.kind == "execute" and self.title:
            return shrink({"command": self.title})  # Gemini only shows it to people
        locations = self.facts.get("locations")
        return shrink({"locations": locations}) if locations else {}

    def _status(self) -> str:
        given = as_table(self.facts.get("rawInput"))
        is_unknown = given.keys() == {"tool", "error"}  # OpenCode passes a call of no tool it has to one
        if self.facts.get("status") == "completed" and not (self.rejected or is_unknown):
            return "success"
        return "rejected" if self.rejected else "failure"


def is_allowed(kind: str, policy: str) -> bool:
    """Return whether a policy allows a kind of tool; a tool of unknown kind could do anything."""
    if policy == "all":
        return True
    return kind in _READING or (policy == "edits" and kind in _CHANGING)


def choose_option(options: Any, allowed: bool) -> str | None:
    """Return the option that says yes or no, once rather than always; None if there is none."""
    word = "allow" if allowed else "reject"
    offered = [as_table(option) for option in as_list(options)]
    for kind in (f"{word}_once", f"{word}_always"):
        for option in offered:
            if option.get("kind") == kind and as_text(option.get("optionId")):
                return as_text(option["optionId"])
    return None
