"""An outcome: how a launch of an agent ended, what it used, why it failed, and budgets.

The signature of a message is what is left when all that differs from run to run is taken out, so that equal
errors are counted as one. Codes such as TS2307 or 42P01 stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Literal

from msgspec import Struct, field


class FailureKind(StrEnum):
    """Why an attempt did not succeed."""

    USAGE_LIMIT = "usage_limit"
    RATE_LIMIT = "rate_limit"
    OUTAGE = "outage"
    AUTH = "auth"
    CRASH = "crash"
    REFUSED = "refused"
    CONTEXT = "context"
    MAX_TURNS = "max_turns"
    HANG = "hang"
    STUCK = "stuck"
    TIMEOUT = "timeout"
    TRUNCATED = "truncated"
    NO_RESULT = "no_result"
    NO_CHANGE = "no_change"
    QUESTION = "question"
    CANNOT = "cannot"
    UNSHOWN = "unshown"
    OUTPUT_LIMIT = "output_limit"
    INTERRUPTED = "interrupted"
    LOST = "lost"
    DELETED = "deleted"
    NOT_STARTED = "not_started"
    BRANCH = "branch"
    PLAN_EDITED = "plan_edited"
    COMMIT = "commit"
    TAMPERED = "tampered"
    BUDGET = "budget"
    UNKNOWN = "unknown"


class Failure(Struct, frozen=True):
    """Why an attempt failed: for people a sentence, for programs a kind."""

    kind: FailureKind
    message: str
    stderr_tail: str = ""
    until: float | None = None
    """When a usage limit ends, as seconds since the epoch, if the agent said so."""


LONGEST = 200
"""No signature is longer than this."""

_WINDOW = 4000
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[@-_]?")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_FRAME = re.compile(r"\s*at\s+\S")
_TRACEBACK = "traceback (most recent call last)"

_UNIT = r"(?:ns|us|ms|s|m|h|kb|mb|gb|kib|mib|gib|b|px|%)?"
_FILE = r"[\w.@+-]*\.[a-z]\w{0,4}"
_PLACE = r"(?:\(\d+,\d+\)|(?::\d+){0,2})"

# The first pattern that matches at a place wins; no placeholder contains what any of them looks for.
_PATTERNS = (
    ("name", r"""(?<!\w)'[^'\n]{1,200}'(?!\w)|"[^"\n]{1,200}"|`[^`\n]{1,200}`|[“«][^”»\n]{1,200}[”»]"""),
    ("url", r"\b[a-z][a-z0-9+.-]{1,20}://[^\s<>()]+"),
    ("id", r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b"),
    ("time", r"\b\d{4}-\d\d-\d\d(?:[t ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:z|[+-]\d\d:?\d\d)?)?(?!\w)"),
    ("time", r"\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?z?(?!\w)"),
    ("path", rf"(?<![\w/\\])[a-z]:[\\/][^\s:*?<>|,;()]*{_PLACE}"),
    ("path", rf"(?<![\w/<>.@+~-])(?:~|\.{{1,2}})?/[\w.@+-][^\s:*?<>|,;()]*{_PLACE}"),
    ("path", rf"(?<![\w/<>.@+~-])(?:[\w.@+-]+/)+{_FILE}{_PLACE}(?!\w)"),
    ("path", rf"(?<![\w/<>.@+~-])(?:[\w.@+-]+/){{2,}}[\w.@+-]*{_PLACE}(?!\w)"),
    ("path", rf"(?<![\w/<>.@+~-]){_FILE}(?:\(\d+,\d+\)|(?::\d+){{1,2}})(?!\w)"),
    ("keep", r"\b(?:http|status|code|error)[ :=]{1,3}\d{1,3}\b(?![.,]\d)"),
    ("hex", r"\b0x[0-9a-f]+\b"),
    ("hex", r"\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,128}\b"),
    ("id", r"(?<![a-z0-9])(?=[a-z]*\d)(?=\d*[a-z])[a-z0-9]{16,}(?![a-z0-9])"),
    ("n", rf"(?<![\w<])\d+(?:[.,:]\d+)*{_UNIT}(?!\w)"),
)
_VARYING = re.compile("|".join(f"(?P<{name}{i}>{pattern})" for i, (name, pattern) in enumerate(_PATTERNS)))


def signature(message: str) -> str:
    """Return the normalised form of a message, by which errors are counted; it is its own signature."""
    text = _telling(_readable(message))
    # Cutting the end off may bring something to light; each round leaves fewer digits, quotes and slashes.
    while (again := _shortened(_VARYING.sub(_placeholder, text))) != text:
        text = again
    return text


def _readable(message: str) -> str:
    """Return the message in lower case, without colours and what a terminal would not show."""
    if len(message) > 2 * _WINDOW:
        message = f"{message[:_WINDOW]}\n{message[-_WINDOW:]}"
    text = message.encode("utf-8", "replace").decode()
    return _CONTROLS.sub(" ", _ESCAPES.sub("", text)).lower()


def _telling(text: str) -> str:
    """Return the lines that say what went wrong: not where a stack trace has been."""
    lines = [line for line in text.splitlines() if line.strip()]
    if any(_TRACEBACK in line for line in lines):
        return lines[-1]
    return "\n".join([line for line in lines if not _FRAME.match(line)] or lines)


def _placeholder(found: re.Match[str]) -> str:
    name = (found.lastgroup or "").rstrip("0123456789")
    return found[0] if name == "keep" else f"<{name}>"


def _shortened(text: str) -> str:
    return " ".join(text.split())[:LONGEST].strip(" .,:;!-")


class Usage(Struct, frozen=True):
    """Tokens and money, as far as the agent reports them."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    """None: the agent does not report it."""
    cached_tokens: int | None = None
    """Those of the input tokens that the vendor had in its cache; None: the agent does not report it."""

    def __add__(self, other: Usage) -> Usage:
        costs = [cost for cost in (self.cost_usd, other.cost_usd) if cost is not None]
        cached = [count for count in (self.cached_tokens, other.cached_tokens) if count is not None]
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            sum(costs) if costs else None,
            sum(cached) if cached else None,
        )

    @property
    def tokens(self) -> int:
        """All tokens together."""
        return self.input_tokens + self.output_tokens

    @property
    def cached_share(self) -> float | None:
        """Which part of the input tokens came from the vendor's cache; None: nobody reports it."""
        if self.cached_tokens is None or not self.input_tokens:
            return None
        return min(1.0, self.cached_tokens / self.input_tokens)


class Outcome(Struct, frozen=True):
    """How a launch ended. `failure is None` is the agent's claim of success, not yet proof."""

    text: str = ""
    failure: Failure | None = None
    exit_code: int | None = None
    session: str | None = None
    model: str | None = None
    usage: Usage | None = None
    duration: float = 0.0
    branches: tuple[str, ...] = ()
    """The branches a cloud agent has pushed to."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Counts and ids that only some agents report: `tools`, `agent_id`, `adopted`."""
    doubt: Failure | None = None
    """What its last words mean if nothing has changed: a program may end well after an error."""


Scope = Literal["run", "task", "day"]
"""What a budget is for."""


class Budget(Struct, frozen=True):
    """Caps for a run, a task or a day; None means no cap."""

    launches: int | None = None
    tokens: int | None = None
    cost_usd: float | None = None

    def exceeded(self, launches: int, usage: Usage, path: str = "limits", per: str = "") -> str | None:
        """Return which cap forbids one more launch, in words; None if none does.

        `path` is the table of the settings with the caps, `per` what they are for.
        """
        if self.launches is not None and launches >= self.launches:
            return f"the cap of {self.launches} launches{per} ({path}.launches) is used up"
        if self.tokens is not None and usage.tokens >= self.tokens:
            return f"the cap of {self.tokens} tokens{per} ({path}.tokens) is used up: {usage.tokens} so far"
        if self.cost_usd is not None and (usage.cost_usd or 0.0) >= self.cost_usd:
            cap, spent = f"${self.cost_usd:.2f}", f"${usage.cost_usd or 0.0:.2f}"
            return f"the cap of {cap}{per} ({path}.cost_usd) is used up: {spent} so far"
        return None

    def passed(self, usage: Usage, path: str = "limits", per: str = "") -> Iterator[str]:
        """Yield by how much more was used than the caps allow, in words."""
        if self.tokens is not None and usage.tokens > self.tokens:
            more = usage.tokens - self.tokens
            yield f"{more:,} tokens more than the cap of {self.tokens:,}{per} ({path}.tokens)"
        if self.cost_usd is not None and (usage.cost_usd or 0.0) > self.cost_usd:
            more_usd = (usage.cost_usd or 0.0) - self.cost_usd
            yield f"${more_usd:.2f} more than the cap of ${self.cost_usd:.2f}{per} ({path}.cost_usd)"
