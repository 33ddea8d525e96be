"""A real browser: Debian's chromium, driven from Python. Nothing is downloaded."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.place import DEADLINE, until
from tests.web.place import Served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_browsers: list[tuple[subprocess.Popen[bytes], Path]] = []
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


@contextmanager
def looking(served: Served, expected: str = "", **options: Any) -> Iterator[Page]:
    """A window of a browser that was let in; whatever its console complains of fails the test.

    The link works once: where it was used already, the browser is given the cookie. `expected` is part of a
    complaint that belongs to the test.
    """
    context = _connect()[1].new_context(**options)
    context.set_default_timeout(DEADLINE * 1000)
    for cookie in served.client.cookies.jar:
        context.add_cookies([{"name": cookie.name, "value": str(cookie.value), "url": served.url}])
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on(
        "console",
        lambda said: problems.append(f"{said.text} {said.location['url']}") if said.type == "error" else None,
    )
    page.goto(served.url if len(served.client.cookies) else served.link)
    page.wait_for_url("**/runs")
    try:
        yield page
    finally:
        context.close()
    unexpected = [one for one in problems if not expected or expected not in one]
    assert not unexpected, "\n".join(unexpected)


@cache
def _connect() -> tuple[Playwright, Browser]:
    """Start what drives the browser, which takes longer than many a test."""
    from playwright.sync_api import sync_playwright

    driver = sync_playwright().start()
    return driver, driver.chromium.connect_over_cdp(_start_chromium())


def disconnect() -> None:
    """End what drives the browser: while it runs, this thread has no event loop for anybody else."""
    if _connect.cache_info().currsize:
        _connect()[0].stop()
        _connect.cache_clear()


@cache
def _start_chromium() -> str:
    """Start one browser for this test process, where each test has its own context; return its address."""
    profile = Path(tempfile.mkdtemp(prefix="segue-chromium-"))
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-port=0"]
    # What a browser of people does beside showing pages.
    flags += ["--disable-background-networking", "--disable-component-update", "--disable-extensions"]
    flags += ["--disable-sync", "--disable-default-apps", "--mute-audio", "--no-zygote"]
    # No window of its own and no process that draws with a software of its own: both are busy while idle.
    flags += ["--no-startup-window", "--in-process-gpu", "--disable-software-rasterizer"]
    flags += ["--disable-features=Translate,OptimizationHints,MediaRouter,DialMediaRouteProvider"]
    process = subprocess.Popen(
        [str(CHROMIUM), *flags, f"--user-data-dir={profile}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    atexit.register(_end, process, profile)
    _browsers.append((process, profile))
    port = profile / "DevToolsActivePort"
    until(lambda: port.exists() and len(port.read_text().splitlines()) == 2, "chromium")
    number, path = port.read_text().splitlines()
    return f"ws://127.0.0.1:{number}{path}"


def close_browser() -> None:
    """End the browser, which takes time from others even when nobody looks at it."""
    while _browsers:
        _end(*_browsers.pop())
    _start_chromium.cache_clear()


def _end(process: subprocess.Popen[bytes], profile: Path) -> None:
    if process.poll() is None:
        process.terminate()
    process.wait(DEADLINE)
    shutil.rmtree(profile, ignore_errors=True)


def overflow(page: Page) -> int:
    """By how many pixels the page is wider than its window."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))
