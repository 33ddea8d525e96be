"""Every page for everybody: the rules of axe, and nothing that scrolls sideways."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, NamedTuple

from tests.cli.place import until
from tests.slow.agents.install import AXE
from tests.web.browser import overflow

if TYPE_CHECKING:
    from playwright.sync_api import Page, ViewportSize

DESK: ViewportSize = {"width": 1200, "height": 820}


class Look(NamedTuple):
    """How somebody looks at a page."""

    scheme: Literal["light", "dark"]
    width: int
    height: int


LOOKS = (Look("light", 1200, 820), Look("dark", 360, 740))
_LOADED = "!document.querySelector('details[data-src][open]:not([data-loaded])')"
_OPEN_DETAILS = f"""() => {{
  document.querySelectorAll("details").forEach((one) => {{ one.open = true; }});
  return !({_LOADED});
}}"""
_AXE = """async () => (await axe.run({ resultTypes: ["violations"] })).violations
  .flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 140)}`))"""


def visit(page: Page, url: str, addresses: Iterable[str]) -> list[str]:
    """Return what is wrong with these pages, with everything unfolded."""
    return [problem for address in addresses for problem in _visit(page, url, address)]


def _visit(page: Page, url: str, address: str) -> list[str]:
    page.goto(url + address)
    if page.evaluate(_OPEN_DETAILS):
        until(lambda: page.evaluate(_LOADED), "what was opened")
    return look_around(page, address)


def look_around(page: Page, name: str) -> list[str]:
    """Return what is wrong with a page as it is now, in the light on a desk and in the dark on a phone."""
    found = []
    for look in LOOKS:
        page.emulate_media(color_scheme=look.scheme)
        page.set_viewport_size({"width": look.width, "height": look.height})
        problems = _ask_axe(page) if AXE.is_file() else []
        problems += [f"scrolls sideways by {wide}"] if (wide := overflow(page)) > 0 else []
        found += [f"{name}, {look.scheme} {look.width}: {one}" for one in dict.fromkeys(problems)]
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(DESK)
    return found


def _ask_axe(page: Page) -> list[str]:
    if not page.evaluate("'axe' in window"):
        page.evaluate(f"{AXE.read_text('utf-8')}; undefined")
    found: list[str] = page.evaluate(_AXE)
    return found
