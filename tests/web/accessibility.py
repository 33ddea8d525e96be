"""Rules of accessibility, checked in the browser on what is really shown."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

CONTRAST = 4.5
TARGET = 24


def find_problems(page: Page) -> list[str]:
    """Return what is wrong with a page for people who see, hear or move differently."""
    focus: list[str] = page.evaluate(_read("focus.js"))
    found = find_shown_problems(page)
    page.evaluate("document.activeElement?.blur()")
    return [*found, *focus]


def find_shown_problems(page: Page) -> list[str]:
    """Return what is wrong with a page as it looks, without moving the focus."""
    found: list[str] = page.evaluate(_read("accessibility.js"), [CONTRAST, TARGET])
    return found


@cache
def _read(name: str) -> str:
    return (Path(__file__).parent / name).read_text()
