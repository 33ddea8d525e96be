"""Folders that take a while to make, such as repositories: made once per test process, then copied."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path


def copy_template(make: Callable[[Path], None], folder: Path) -> None:
    """Fill a folder as `make` does; files of git that name their own place name the copy."""
    template = _make(make)
    shutil.copytree(template, folder, symlinks=True, dirs_exist_ok=True)
    for config in (*folder.glob("*/.git/config"), *folder.glob("*/config"), *folder.glob(".git/config")):
        config.write_text(config.read_text().replace(str(template), str(folder)))


@cache
def _make(make: Callable[[Path], None]) -> Path:
    folder = Path(tempfile.mkdtemp(dir=make_template_folder()))
    make(folder)
    return folder


@cache
def make_template_folder() -> Path:
    """Return a folder that exists until this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="segue-templates-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
