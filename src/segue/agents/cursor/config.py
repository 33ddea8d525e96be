"""A configuration folder for one launch of Cursor, with what the user configured in it."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from pathlib import Path

_CONFIG = "cli-config.json"
_LOGIN = "auth.json"


def own_config_dir(folder: Path) -> Path:
    """Make the folder a CURSOR_CONFIG_DIR: launches that share one race on its files when they start.

    The user's permissions hold in it, above all what he denied. His login is kept elsewhere by Cursor; in
    case it is a file beside the configuration it is linked, never copied.
    """
    user = user_config_dir()
    # A launch that is adopted already uses the folder: what is there stays.
    if not (folder / _CONFIG).exists() and (user / _CONFIG).is_file():
        shutil.copyfile(user / _CONFIG, folder / _CONFIG)
    if (user / _LOGIN).is_file():
        with contextlib.suppress(OSError):  # there already, or a system without links
            (folder / _LOGIN).symlink_to(user / _LOGIN)
    return folder


def user_config_dir() -> Path:
    """Where Cursor keeps the user's configuration."""
    if named := os.environ.get("CURSOR_CONFIG_DIR"):
        return Path(named)
    if sys.platform != "darwin" and (home := os.environ.get("XDG_CONFIG_HOME")):
        return Path(home) / "cursor"
    return Path.home() / ".cursor"
