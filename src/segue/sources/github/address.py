"""Which issues are meant: `github:OWNER/REPO`, `github:OWNER/REPO#12`, `github:OWNER/REPO?label=ready`."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlencode

from msgspec import Struct

from segue.domain.errors import SourceError, UsageError
from segue.sources.recognise import GITHUB

_PLACE = re.compile(
    r"(?:github:|(?:https?://)?(?:www\.)?github\.com/|git@github\.com:)"
    r"(?P<owner>[\w.-]+)/(?P<repo>[\w.-]+?)(?:\.git)?"
    r"(?:(?:#|/issues/)(?P<number>[1-9][0-9]{0,9})|/issues/?)?(?:\?(?P<query>.*))?"
)
_HINT = "segue run github:OWNER/REPO?label=ready   or one issue: segue run github:OWNER/REPO#12"


class IssueList(Struct, frozen=True):
    """A repository, and which of its issues are meant."""

    owner: str
    repo: str
    number: int | None = None
    labels: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        """The repository."""
        return f"{self.owner}/{self.repo}"

    @property
    def address(self) -> str:
        """What names the same issues again."""
        place = f"{GITHUB}{self.full_name}"
        if self.number is not None:
            return f"{place}#{self.number}"
        chosen = urlencode([("label", label) for label in self.labels])
        return f"{place}?{chosen}" if chosen else place

    @property
    def title(self) -> str:
        """How lists call it."""
        if self.number is not None:
            return f"{self.full_name}#{self.number}"
        return ", ".join((f"issues of {self.full_name}", *(f"label {label}" for label in self.labels)))


def read_address(named: str) -> IssueList:
    """Return which issues a name means; raises UsageError."""
    found = _PLACE.fullmatch(named.strip())
    if found is None:
        raise SourceError(f"{named!r} names no issues on GitHub.", hint=_HINT)
    try:
        pairs = parse_qsl(found["query"] or "", keep_blank_values=True, strict_parsing=bool(found["query"]))
    except ValueError:
        raise UsageError(f"{named!r}: the part after `?` cannot be read.", hint=_HINT) from None
    if unknown := [name for name, _ in pairs if name != "label"]:
        raise UsageError(f"{named!r}: there is no {unknown[0]!r}.", hint="There is: label")
    number = int(found["number"]) if found["number"] else None
    labels = sorted({label for _, value in pairs if (label := value.strip())})
    if number is not None and labels:
        raise UsageError(f"{named!r} is one issue, so a label has no effect.", hint="Leave one of them out")
    if any("," in label for label in labels):
        raise UsageError("A label cannot contain a comma.", hint="For several: ?label=a&label=b")
    return IssueList(found["owner"], found["repo"], number, tuple(labels))
