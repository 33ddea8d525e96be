"""The table `[git]`."""

from typing import Literal

from segue.domain.options import Count, Options


class GitSettings(Options, frozen=True):
    """What git may start (hooks in the sandbox, your own programs outside), and how much it may read."""

    hooks: Literal["check", "off"] = "check"
    """Run the repository's own hooks (`pre-commit`, `prepare-commit-msg`, `commit-msg`) in the sandbox before
    each commit, as they were before the task; `off` leaves them out."""
    sign: Literal["user", "repository", "off"] = "user"
    """Whose program signs commits where `commit.gpgSign` asks for that: the one of your own configuration,
    also one that only the `repository`'s names, or none (`off`)."""
    add_bytes: Count = 512 * 1024**2
    """Bytes of changed files that one commit may have. What is beyond is named and not committed, and the
    attempt fails."""
    filters: tuple[str, ...] = ()
    """Filter drivers of the repository's own configuration that git may start, such as `nbstripout`; LFS and
    those of your own configuration it may start anyway."""
