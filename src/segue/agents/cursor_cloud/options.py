"""The options of Cursor's cloud agents."""

from __future__ import annotations

from typing import Literal

from segue.agents.cloud.options import CloudAccess
from segue.domain.options import Count


class CursorCloudOptions(CloudAccess, frozen=True):
    """The table `[agents.cursor-cloud]`."""

    base_url: str = "https://api.cursor.com"
    """The address of the API."""
    api_version: Literal["v1", "v0"] = "v1"
    """The version of the API; `v0` is the legacy one and can do less."""
    auto_create_pr: bool = False
    """Let Cursor open a pull request."""
    stream: bool = True
    """Stream runs as they work (v1 only)."""
    max_streams: Count = 20
    """Runs streamed at once; others are polled."""
