"""Rate limits: so many requests in a window, and so many writes in a minute."""

from __future__ import annotations

import time
from collections import deque

from msgspec import Struct, field

from segue.parts.sim.github.answers import GithubRefusal
from segue.parts.sim.github.script import GithubScript


class LimitWindow(Struct):
    """How much of one limit a token has used."""

    reset: float
    used: int = 0


class GithubLimits(Struct):
    """The limits of every token."""

    windows: dict[tuple[str, str], LimitWindow] = field(default_factory=dict)
    writes: dict[str, deque[float]] = field(default_factory=dict)

    def window(self, script: GithubScript, token: str, resource: str) -> LimitWindow:
        """Return the window a token is in."""
        now = time.time()
        found = self.windows.get((token, resource))
        if found is None or found.reset <= now:
            found = self.windows[token, resource] = LimitWindow(now + script.rate_window)
        return found

    def headers(self, script: GithubScript, token: str, resource: str) -> dict[str, str]:
        """Return the headers about the primary limit."""
        window = self.window(script, token, resource)
        return {
            "x-ratelimit-limit": str(script.rate_limit),
            "x-ratelimit-remaining": str(max(0, script.rate_limit - window.used)),
            "x-ratelimit-used": str(window.used),
            "x-ratelimit-reset": str(int(window.reset) + 1),
            "x-ratelimit-resource": resource,
        }

    def count(self, script: GithubScript, token: str, login: str, resource: str) -> None:
        """Count a request; raises a refusal if it is one too many."""
        window = self.window(script, token, resource)
        if window.used >= script.rate_limit:
            raise refuse_primary(login, self.headers(script, token, resource))
        window.used += 1

    def refund(self, script: GithubScript, token: str, resource: str) -> None:
        """Take a request back: what has not changed costs nothing."""
        window = self.window(script, token, resource)
        window.used = max(0, window.used - 1)

    def count_write(self, script: GithubScript, token: str) -> None:
        """Count a write; raises a refusal if there were too many in the last minute."""
        now = time.time()
        writes = self.writes.setdefault(token, deque())
        while writes and writes[0] <= now - 60:
            writes.popleft()
        if len(writes) >= script.writes_per_minute:
            raise refuse_secondary(max(1, round(writes[0] + 60 - now)))
        writes.append(now)


def refuse_primary(login: str, headers: dict[str, str]) -> GithubRefusal:
    """Build the refusal of a token without requests left."""
    gone = {**headers, "x-ratelimit-remaining": "0"}
    return GithubRefusal(403, f"API rate limit exceeded for user ID {login}.", headers=gone)


def refuse_secondary(seconds: int) -> GithubRefusal:
    """Build the refusal of a client that is too fast."""
    words = (
        "You have exceeded a secondary rate limit. Please wait a few minutes before you try again. "
        "If you reach out to GitHub Support for help, please include the request ID."
    )
    return GithubRefusal(403, words, headers={"retry-after": str(seconds)})
