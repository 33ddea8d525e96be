"""Routes of the page: a path with a query that returns its data, shown by a template or as `.json`.

To add a page, write a module with `PAGES`, or `ACTIONS` for POSTs, and add it to MODULES, or to the
`PAGES` of features. A page of the core never names one of a feature: the menu does.
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, field

from segue.domain.run import Run
from segue.plugins import PAGES
from segue.runtime.app import App
from segue.view.run import RunView
from segue.web.cache import VersionedCache
from segue.web.queries import NotFound as NotFound
from segue.web.queries import get_view

if TYPE_CHECKING:
    from segue.store.store import Store


T = TypeVar("T")
Data = dict[str, Any]
"""The data of a page as JSON values, so that the page and its `.json` twin agree."""

MODULES = ("inbox", "runs", "run", "tasks", "talk", "step", "actions")
"""The modules of this package with pages; those of features follow."""

MENU = ("Inbox", "Runs", "Lab")
"""The entries of the menu; a page names the one whose tab it is."""


class PageRequest(Struct, frozen=True):
    """A request for a page, with a store that is open for reading only."""

    app: App
    store: Store
    path: Mapping[str, str]
    """The parameters of the path."""
    query: Mapping[str, str]
    views: VersionedCache[RunView] = field(default_factory=lambda: VersionedCache(1))

    def view(self, run: Run) -> RunView:
        """Return the view of a run."""
        return get_view(self.store, run, self.views)

    def text(self, name: str) -> str:
        """Return a query parameter without surrounding whitespace."""
        return self.query.get(name, "").strip()

    def number(self, name: str, default: int = 0, most: int = 2**53) -> int:
        """Return a query parameter as a number of at least 0; the default if it is anything else."""
        value = self.text(name)
        return min(int(value), most) if value.isascii() and value.isdecimal() and len(value) < 20 else default

    def page(self, total: int, size: int) -> tuple[int, int]:
        """Return the number of the requested page of a list, from 1, and the number of its pages."""
        pages = max(1, -(-total // size))
        return min(self.number("page", 1) or 1, pages), pages


class PageRoute(Struct, frozen=True):
    """A page: its address, its query and its template."""

    path: str
    """In Starlette's syntax: `/runs/{run}`; the JSON is at `/runs/{run}.json`."""
    template: str
    title: str
    query: Callable[[PageRequest], Data]
    """Called in a thread. Raises NotFound if there is nothing to show."""
    present: Callable[[Data], Data] | None = None
    """Adds what only the template needs, such as drawings."""
    menu: str = ""
    """The entry of the menu whose tab it is; the first page of an entry is what the entry leads to."""
    section: str = ""
    """The path of the tab that is highlighted for this page, if it is not its own."""
    live: bool = False
    """True if the parts marked `data-live` are fetched again when the store has changed."""
    slow: bool = False
    """True if the frame is sent before the query has an answer, which is then too late for NotFound."""
    name: Callable[[PageRequest], str] | None = None
    """Returns the title of a slow page soon, or raises NotFound."""


class MenuEntry(Struct, frozen=True):
    """An entry of the menu, and the pages that are its tabs."""

    title: str
    tabs: list[PageRoute]

    @property
    def path(self) -> str:
        """Where it leads."""
        return self.tabs[0].path

    def holds(self, path: str) -> bool:
        """Return whether one of its tabs has this path."""
        return any(tab.path == path for tab in self.tabs)


class ActionResult(Struct, frozen=True):
    """What an action did, as a sentence, and where to look now."""

    said: str
    where: str


class ActionRoute(Struct, frozen=True):
    """Something a page can do: a POST."""

    path: str
    run: Callable[[App, Mapping[str, str], Mapping[str, str]], Awaitable[ActionResult]]
    """Called with the settings, the parameters of the path and the fields of the form."""


def list_pages() -> list[PageRoute]:
    """Return all pages."""
    return [page for module in _load_modules() for page in getattr(module, "PAGES", ())]


def make_menu(pages: Iterable[PageRoute]) -> list[MenuEntry]:
    """Sort pages by the entries of the menu; an entry without pages is left out."""
    tabs: dict[str, list[PageRoute]] = {name: [] for name in MENU}
    for page in pages:
        if page.menu:
            tabs[page.menu].append(page)
    return [MenuEntry(name, found) for name, found in tabs.items() if found]


def list_actions() -> list[ActionRoute]:
    """Return all actions."""
    return [action for module in _load_modules() for action in getattr(module, "ACTIONS", ())]


def slice_page(items: list[T], page: int, size: int) -> list[T]:
    """Return the items of one page of a list."""
    return items[(page - 1) * size : page * size]


def _load_modules() -> list[Any]:
    return [importlib.import_module(name) for name in (*(f"segue.web.{one}" for one in MODULES), *PAGES)]
