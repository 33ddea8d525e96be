"""The table `[git]`."""

from typing import Literal

from segue.domain.options import Options


class GitSettings(Options, frozen=True):
    """What becomes of the repository's own hooks."""

    hooks: Literal["check", "off"] = "check"
    """Run the repository's own hooks (`pre-commit`, `prepare-commit-msg`, `commit-msg`) in the sandbox before
    each commit, as they were before the task; `off` leaves them out."""
