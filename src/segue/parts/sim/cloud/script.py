"""The script of the cloud simulator: what agents do, what goes wrong with requests, and who decides it."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import msgspec
from msgspec import Struct, field

from segue.domain.options import Options
from segue.parts.sim.cloud.requests import ERROR_KINDS, WORDS, CloudRefusal, ErrorShape
from segue.sim.script import Deck, check_pattern, equals, fill, matches
from segue.sim.services import RequestFault, check_faults

RUN_FAULTS: Mapping[str, str] = WORDS["run_faults"]
"""What can go wrong with a run."""

REQUEST_FAULTS: Mapping[str, str] = {
    **WORDS["request_faults"],
    **{code: f"{kind.status} with this code" for code, kind in ERROR_KINDS.items()},
}
"""What can go wrong with a request."""

STREAM_FAULTS = ("sse_cut", "sse_silent", "sse_error")


class AgentEntry(Options, frozen=True):
    """What a cloud agent does with one prompt: when the entry applies, and the work."""

    prompt: str | None = None
    """prompts that this regular expression is found in"""
    turn: int | None = None
    """1 is the launch, 2 the first follow-up, …"""
    launch: int | None = None
    """the agent with this number, from 1"""
    times: int = 0
    """the entry serves this many prompts; 0: any number"""
    write: Mapping[str, str] | None = None
    """files to write: path = content; unset: one small file"""
    delete: Sequence[str] = []
    """files to delete"""
    say: str | None = None
    """its reply"""
    delay: float | None = None
    """seconds it works"""
    hold: bool = False
    """works until `POST /_sim/release`"""

    def __post_init__(self) -> None:
        check_pattern(self.prompt)


class CloudEntry(AgentEntry, frozen=True):
    """What an agent of Cursor's does in one run, and what goes wrong."""

    thinking: str = ""
    """what it thinks before it speaks"""
    tools: Sequence[Mapping[str, Any]] = []
    """tool calls: `type`, `name`, `args`, `result`, `status`"""
    create_delay: float | None = None
    """seconds in CREATING"""
    statuses: Sequence[str] = []
    """the statuses in order; if the last one is not terminal the run stays there"""
    push: Literal["end", "early"] = "end"
    """when it pushes: before its end, or at once"""
    usage: dict[str, int] | None = None
    """tokens by their API names"""
    cost: dict[str, float] | None = None
    """`rawCostCents` and `chargedCents`"""
    error: Any = None
    """the run's `error`, of any shape"""
    artifacts: Mapping[str, str] | None = None
    """artifacts: path under `artifacts/` = content; unset: one log per run that works"""
    faults: Sequence[str] = []
    """faults of runs"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_faults(self.faults, RUN_FAULTS)

    def has(self, fault: str) -> bool:
        """Return whether this goes wrong."""
        return fault in self.faults


class CloudFault(RequestFault, frozen=True):
    """A fault of requests, with its details; a fault of streams concerns only requests for them."""

    known = REQUEST_FAULTS

    delay: float = 0.0
    """seconds before anything else happens"""
    retry_after: str | None = None
    """the header Retry-After; unset: no such header"""
    status: int = 0
    """another HTTP status"""
    code: str = ""
    """another code, of an error or of an `error` event"""
    message: str = ""
    """another message"""
    shape: ErrorShape | None = None
    """`nested`, `flat`, `text` or `overview`"""
    events: int = 0
    """whole events before a cut"""

    def matches(self, method: str, path: str) -> bool:
        """Return whether a request may have the fault."""
        if self.on == "*" and self.fault in STREAM_FAULTS:
            return method == "GET" and path.startswith("/v1/agents/") and path.endswith("/stream")
        return super().matches(method, path)


_COMPOSER: dict[str, Any] = {
    "id": "composer-2.5",
    "displayName": "Composer 2.5",
    "aliases": ["composer"],
    "parameters": [{"id": "effort", "values": [{"value": "low"}, {"value": "high"}]}],
    "variants": [
        {"params": [{"id": "effort", "value": "high"}], "displayName": "Composer 2.5", "isDefault": True}
    ],
}
_SONNET: dict[str, Any] = {"id": "claude-4.5-sonnet", "displayName": "Claude 4.5 Sonnet"}
_GPT: dict[str, Any] = {"id": "gpt-5.2", "displayName": "GPT-5.2", "description": "A model for hard work"}


class CloudScript(Options, frozen=True):
    """Everything a script can say."""

    on: Sequence[CloudEntry] = []
    """what agents do; the first entry that matches is used"""
    faults: Sequence[CloudFault] = []
    """what goes wrong with requests"""
    repos: Mapping[str, Path] = {}
    """repository address = local bare repository"""
    keys: Sequence[str] = []
    """the API keys that are known; empty: any key"""
    service_account: bool = False
    """the key belongs to a team, not to a person"""
    models: Sequence[str | Mapping[str, Any]] = msgspec.field(
        default_factory=lambda: [_COMPOSER, _SONNET, _GPT]
    )
    """the models; bare strings as in April 2026 are served as such"""
    pools: Sequence[str] = []
    """the pools and machines that exist"""
    create_delay: float = 0.0
    """seconds every run is CREATING"""
    delay: float = 0.02
    """seconds every run is RUNNING"""
    rate_limit: int = 100_000
    """requests per minute and key"""
    active_limit: int = 0
    """runs that may be active at once; 0: any number"""
    slow_lists: bool = True
    """`/repositories` 1 a minute and 30 an hour; v0 artifacts 300, 6000"""
    retention: float = 86_400.0
    """seconds a stream can be read after its run has ended"""
    heartbeat: float = 15.0
    """seconds of silence before a heartbeat"""
    artifact_ttl: float = 900.0
    """seconds a download address works"""
    stopped_status: str = "FINISHED"
    """what v0 shows after a stop, which nobody documents"""
    stop_is_final: bool = False
    """v0 refuses follow-ups after a stop"""
    webhook_retries: int = 3
    """deliveries after one that was not answered with 2xx"""
    webhook_pause: float = 0.1
    """seconds before the first of them; doubled each time"""

    @property
    def bares(self) -> Mapping[str, Path]:
        """The bare repositories."""
        return self.repos


SLOW_LISTS: dict[str, tuple[tuple[int, float], ...]] = {
    r"/v[01]/repositories": ((1, 60.0), (30, 3600.0)),
    r"/v0/agents/[^/]+/artifacts.*": ((300, 60.0), (6000, 3600.0)),
}


E = TypeVar("E", bound=AgentEntry)


class AgentPlay(Struct, Generic[E]):
    """The entry that an agent plays, and the values of the placeholders in its texts."""

    entry: E
    words: dict[str, str]

    def fill(self, text: str) -> str:
        """Fill in `{turn}`, `{launch}`, `{prompt}`, `{slug}` and named groups."""
        return fill(text, self.words)


def pick_play(deck: Deck[E], default: E, prompt: str, turn: int, launch: int) -> AgentPlay[E]:
    """Return what an agent plays; without a matching entry, the default."""
    tests = {"prompt": matches(prompt), "turn": equals(turn), "launch": equals(launch)}
    entry = deck.pick(tests) or default
    words = {"prompt": prompt, "turn": str(turn), "launch": str(launch), "slug": make_slug(prompt)}
    found = re.search(entry.prompt or "", prompt)
    groups = found.groupdict() if found else {}
    return AgentPlay(entry, words | {name: value or "" for name, value in groups.items()})


class RateLimiter(Struct):
    """Rate limits as sliding windows per key."""

    clock: Callable[[], float] = time.time
    _calls: dict[tuple[str, str], deque[float]] = field(default_factory=dict)

    def count(self, key: str, name: str, windows: Sequence[tuple[int, float]]) -> dict[str, str]:
        """Count a request and return the headers; raises a CloudRefusal if it is one too many."""
        now = self.clock()
        calls = self._calls.setdefault((key, name), deque())
        while calls and calls[0] <= now - max(seconds for _, seconds in windows):
            calls.popleft()
        for limit, seconds in windows:
            within = len(calls) if len(windows) == 1 else sum(1 for call in calls if call > now - seconds)
            if within >= limit:
                wait = max(1, round(calls[len(calls) - within] + seconds - now))
                headers = _build_headers(limit, 0, now + wait) | {"Retry-After": str(wait)}
                raise CloudRefusal("rate_limit_exceeded", headers=headers)
        calls.append(now)
        limit, seconds = windows[0]
        return _build_headers(limit, max(0, limit - len(calls)), calls[0] + seconds)


def make_slug(text: str) -> str:
    """Make a name of the first words of the text."""
    words = re.findall(r"[a-z0-9]+", text.lower())
    return "-".join(words[:6])[:40].strip("-") or "task"


def _build_headers(limit: int, remaining: int, reset: float) -> dict[str, str]:
    return {
        "X-RateLimit-Limit": str(limit),
        "X-RateLimit-Remaining": str(remaining),
        "X-RateLimit-Reset": str(round(reset)),
    }
