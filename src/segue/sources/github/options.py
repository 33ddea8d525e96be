"""The table `[github]`: what Segue tells readers of issues."""

from __future__ import annotations

from segue.domain.options import Options


class GithubSettings(Options, frozen=True):
    """The table `[github]`."""

    comments: bool = True
    """Comment on an issue when work on it starts, needs a person, or is done."""
