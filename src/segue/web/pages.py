"""What a page is: one small module with a path, a template, and data that is also its `.json` twin.

To add a page, write a module with `PAGES`, or `ACTS` for what can be done, and name it in MODULES.
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from segue.domain.errors import UsageError
from segue.ports import Store
from segue.runtime.app import App

Data = dict[str, Any]
"""What a page shows: values that JSON knows, so that the twin says the same."""

MODULES = (
    "segue.web.runs",
    "segue.web.tasks",
    "segue.web.run",
    "segue.web.step",
    "segue.web.actions",
    "segue.web.reports",
    "segue.web.steps",
    "segue.web.events",
    "segue.web.bridge",
    "segue.web.doctor",
)
"""The modules with pages, in the order of the menu."""


class Missing(UsageError):
    """There is nothing under this address."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a page is asked, and whom it may ask in turn. The store is open for reading only."""

    app: App
    store: Store
    path: Mapping[str, str]
    """The parts of the address that the page's path names."""
    query: Mapping[str, str]

    def text(self, name: str, default: str = "") -> str:
        """A value behind the question mark, without blanks around it."""
        return self.query.get(name, default).strip()

    def number(self, name: str, default: int = 0, most: int = 2**53) -> int:
        """A number behind the question mark that is not negative; anything else counts as the default."""
        value = self.text(name)
        return min(int(value), most) if value.isascii() and value.isdecimal() and len(value) < 20 else default


@dataclass(frozen=True, slots=True)
class Page:
    """A page: its address, its template, and what it shows."""

    path: str
    """As Starlette writes it: `/runs/{run}`; the twin is at `/runs/{run}.json`."""
    template: str
    title: str
    data: Callable[[Asked], Data]
    """Called in a thread. Raises Missing when there is nothing to show."""
    menu: bool = False
    section: str = ""
    """The path of the menu's entry that stands for this page, when it is not its own."""
    live: bool = False
    """Whether the parts marked `data-live` are fetched again when the store has changed."""


@dataclass(frozen=True, slots=True)
class Done:
    """What an act has done, as a sentence, and where to look now."""

    said: str
    where: str


@dataclass(frozen=True, slots=True)
class Act:
    """Something a page can do: a POST."""

    path: str
    do: Callable[[App, Mapping[str, str], Mapping[str, str]], Awaitable[Done]]
    """Given the settings, the parts of the address and the fields of the form; raises SegueError."""


def pages() -> list[Page]:
    """All pages, those of the menu in its order."""
    return [page for module in _modules() for page in module.PAGES]


def acts() -> list[Act]:
    """Everything that pages can do."""
    return [act for module in _modules() for act in getattr(module, "ACTS", ())]


def _modules() -> list[Any]:
    return [importlib.import_module(name) for name in MODULES]
