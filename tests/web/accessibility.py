"""Rules of accessibility, ours and those of axe, checked in the browser on what is really shown."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import pytest

from tests.cli.place import until
from tests.e2e.install import AXE
from tests.web.browser import overflow

if TYPE_CHECKING:
    from playwright.sync_api import Page, ViewportSize

CONTRAST = 4.5
TARGET = 24
DESK: ViewportSize = {"width": 1200, "height": 820}


class Look(NamedTuple):
    """How somebody looks at a page."""

    scheme: Literal["light", "dark"]
    width: int
    height: int


USUAL = (Look("dark", 360, 740),)
"""Beside the light on a desk."""
OTHERS = (
    Look("light", 390, 844),
    Look("dark", 1280, 800),
    Look("light", 1920, 1080),
    Look("dark", 1920, 1080),
)
in_every_look = pytest.mark.parametrize(
    "looks",
    [pytest.param(USUAL, id="usual"), pytest.param(OTHERS, id="others", marks=pytest.mark.thorough)],
)
_LOADED = "!document.querySelector('details[data-src][open]:not([data-loaded])')"
_OPEN_DETAILS = f"""() => {{
  document.querySelectorAll("details").forEach((one) => {{ one.open = true; }});
  return !({_LOADED});
}}"""
_AXE = """async () => (await axe.run({ resultTypes: ["violations"] })).violations
  .flatMap(({ id, nodes }) => nodes.map(({ html }) => `axe, ${id}: ${html.slice(0, 140)}`))"""


def visit(page: Page, url: str, addresses: Iterable[str], looks: Iterable[Look] = USUAL) -> list[str]:
    """Return what is wrong with these pages, with everything unfolded, and change no more than the window."""
    return [problem for address in addresses for problem in _visit(page, url, address, looks)]


def _visit(page: Page, url: str, address: str, looks: Iterable[Look]) -> list[str]:
    page.goto(url + address)
    if page.evaluate(_OPEN_DETAILS):
        until(lambda: page.evaluate(_LOADED), "what was opened")
    return look_around(page, address, looks)


def look_around(page: Page, name: str, looks: Iterable[Look] = USUAL) -> list[str]:
    """Return what is wrong with a page as it is now, in the light on a desk and in other looks."""
    found = [f"{name}: {one}" for one in dict.fromkeys(find_problems(page))]
    for look in looks:
        page.emulate_media(color_scheme=look.scheme)
        page.set_viewport_size({"width": look.width, "height": look.height})
        shown = dict.fromkeys(find_shown_problems(page))
        found += [f"{name}, {look.scheme} {look.width}: {one}" for one in shown]
        if (wide := overflow(page)) > 0:
            found.append(f"{name}, {look.scheme} {look.width}: scrolls sideways by {wide}")
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(DESK)
    return found


def find_problems(page: Page) -> list[str]:
    """Return what is wrong with a page for people who see, hear or move differently."""
    focus: list[str] = page.evaluate(_read("focus.js"))
    found = find_shown_problems(page)
    page.evaluate("document.activeElement?.blur()")
    return [*found, *focus]


def find_shown_problems(page: Page) -> list[str]:
    """Return what is wrong with a page as it looks, without moving the focus."""
    found: list[str] = page.evaluate(_read("accessibility.js"), [CONTRAST, TARGET])
    return found + (_ask_axe(page) if AXE.is_file() else [])


def _ask_axe(page: Page) -> list[str]:
    if not page.evaluate("'axe' in window"):
        page.evaluate(f"{AXE.read_text('utf-8')}; undefined")
    found: list[str] = page.evaluate(_AXE)
    return found


@cache
def _read(name: str) -> str:
    return (Path(__file__).parent / name).read_text()
