"""Which issues are meant: `github:OWNER/REPO`, `github:OWNER/REPO#12`, `github:OWNER/REPO?label=ready`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import parse_qsl, urlencode

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.errors import SourceError, UsageError
from segue.sources.recognise import GITHUB, is_github

_PLACE = re.compile(
    r"(?:github:|(?:https?://)?(?:www\.)?github\.com/|git@github\.com:)"
    r"(?P<owner>[\w.-]+)/(?P<repo>[\w.-]+?)(?:\.git)?"
    r"(?:(?:#|/issues/)(?P<number>[1-9][0-9]{0,9})|/issues/?)?(?:\?(?P<query>.*))?"
)
_KNOWN = ("label", "milestone", "query")
_HINT = "segue run github:OWNER/REPO --label ready   or one issue: segue run github:OWNER/REPO#12"


class IssueList(Struct, frozen=True):
    """A repository, and which of its issues are meant."""

    owner: str
    repo: str
    number: int | None = None
    labels: tuple[str, ...] = ()
    milestone: str = ""
    query: str = ""

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
        chosen = [("label", label) for label in self.labels]
        chosen += [(name, value) for name in _KNOWN[1:] if (value := getattr(self, name))]
        return f"{place}?{urlencode(chosen)}" if chosen else place

    @property
    def title(self) -> str:
        """How lists call it."""
        if self.number is not None:
            return f"{self.full_name}#{self.number}"
        words = [*(f"label {label}" for label in self.labels)]
        words += [f"milestone {self.milestone}"] if self.milestone else []
        words += [self.query] if self.query else []
        return ", ".join((f"issues of {self.full_name}", *words))

    @property
    def is_chosen(self) -> bool:
        """True if somebody who may write to the repository has chosen each issue: labels and milestones."""
        return bool(self.number is not None or self.labels or self.milestone)


def read_address(named: str) -> IssueList:
    """Return which issues a name means; raises UsageError."""
    found = _PLACE.fullmatch(named.strip())
    if found is None:
        raise SourceError(f"{named!r} names no issues on GitHub.", hint=_HINT)
    try:
        pairs = parse_qsl(found["query"] or "", keep_blank_values=True, strict_parsing=bool(found["query"]))
    except ValueError:
        raise UsageError(f"{named!r}: the part after `?` cannot be read.", hint=_HINT) from None
    unknown = [name for name, _ in pairs if name not in _KNOWN]
    if unknown:
        raise UsageError(f"{named!r}: there is no {unknown[0]!r}.", hint=f"There are: {', '.join(_KNOWN)}")
    given = {name: [value.strip() for one, value in pairs if one == name] for name in _KNOWN}
    number = int(found["number"]) if found["number"] else None
    return narrow(
        IssueList(found["owner"], found["repo"], number),
        given["label"],
        (given["milestone"] or [""])[-1],
        (given["query"] or [""])[-1],
    )


def narrow(issues: IssueList, labels: Sequence[str], milestone: str, query: str) -> IssueList:
    """Return the issues that also have these labels, this milestone, and are found by the query."""
    labels = [label for label in labels if label]
    if issues.number is not None and (labels or milestone or query):
        raise UsageError(
            f"--label, --milestone and --query have no effect: {issues.title} is one issue.",
            hint="Leave them out, or leave the number out",
        )
    if any("," in label for label in labels):
        raise UsageError("A label cannot contain a comma.", hint="Repeat --label for several")
    return replace(
        issues,
        labels=tuple(sorted({*issues.labels, *labels})),
        milestone=milestone or issues.milestone,
        query=" ".join(filter(None, (issues.query, query))),
    )


def name_issues(
    named: str | None, labels: Sequence[str], milestone: str | None, query: str | None
) -> str | None:
    """Return what a command names, with the choice of issues that its options make.

    Raises UsageError where these have no effect.
    """
    if not (labels or milestone or query):
        return named
    named_options = {"--label": labels, "--milestone": milestone, "--query": query}
    given = next(option for option, value in named_options.items() if value)
    if named is None or not is_github(named):
        raise UsageError(
            f"{given} has no effect: {named or 'the source'} is not a list of issues on GitHub.", hint=_HINT
        )
    return narrow(read_address(named), labels, milestone or "", query or "").address
