"""Reads spec.md and plan.md by the English template: stories with their scenarios, requirements, sections.

Where a part is not written as the template has it, its whole text is taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, field

from segue.domain.verdict import Criterion
from segue.sources.markdown import Heading, Markdown, plain, strip_blank

_STORY = re.compile(r"(?:\bUS-?|\buser stor(?:y|ies)\s*#?)([0-9]{1,3})(?![0-9A-Za-z])", re.IGNORECASE)
_MORE_STORIES = re.compile(
    r"\s*(?:[&+,/]|and)\s*(?:US-?|user stor(?:y|ies)\s*)?([0-9]{1,3})(?![0-9A-Za-z])", re.IGNORECASE
)
_INDEPENDENT = re.compile(r"\W*independent test\w*\W*(.*)", re.IGNORECASE)
_SCENARIOS = re.compile(r"\W*acceptance (?:scenarios|criteria)\W*$", re.IGNORECASE)
_ITEM = re.compile(r"(\s*)(?:[-*+]|[0-9]{1,9}[.)])\s+(\S.*)")
_BOLD = re.compile(r"\s*(?:[-*+]\s+)?\*\*")
_REQUIREMENT = re.compile(r"\s*(?:[-*+]\s+)?(?:#{2,6}\s+)?\**((?:FR|NFR|SC)-[0-9]{1,4}[a-z]?)\b\**")
_QUOTED = re.compile(r"(?<![A-Za-z0-9-])(?:FR|NFR|SC)-[0-9]{1,4}[a-z]?(?![A-Za-z0-9])")
_PLAN = re.compile(r"summary|overview|technical context|tech(?:nology)? stack", re.IGNORECASE)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)


class Story(Struct, frozen=True):
    """A user story: its section, and the scenarios by which it is accepted."""

    key: str
    title: str
    text: str
    scenarios: tuple[Criterion, ...] = ()
    independent_test: str = ""
    """How the story is tried out on its own."""


class Spec(Struct, frozen=True):
    """A spec.md as it was understood."""

    stories: Mapping[str, Story] = field(default_factory=dict)
    requirements: Mapping[str, str] = field(default_factory=dict)
    """By id, in order: FR-001, SC-002 and so on."""

    def quoted(self, text: str) -> dict[str, str]:
        """Return the requirements whose ids are in the text."""
        return {key: self.requirements[key] for key in _QUOTED.findall(text) if key in self.requirements}


def stories_in(text: str) -> tuple[str, ...]:
    """Return the user stories that a heading names, as `US1`."""
    found = _STORY.search(text)
    if found is None:
        return ()
    numbers, end = [found[1]], found.end()
    while more := _MORE_STORIES.match(text, end):
        numbers.append(more[1])
        end = more.end()
    return tuple(dict.fromkeys(f"US{number.lstrip('0') or '0'}" for number in numbers))


def parse_spec(text: str) -> Spec:
    """Understand spec.md."""
    found = Markdown.read(text)
    stories: dict[str, Story] = {}
    for head in found.headings:
        for key in stories_in(head.text) if head.level > 1 else ():
            stories.setdefault(key, _read_story(found, head, key))
    return Spec(stories, dict(_requirements(found)))


def parse_plan(text: str) -> str:
    """Return summary and technical context of plan.md; the whole file if it has neither."""
    found = Markdown.read(text)
    heads = [head for head in found.headings if head.level > 1 and _PLAN.search(head.text)]
    parts = [f"{plain(head.text)}:\n\n{strip_blank(found.section(head))}" for head in heads]
    return _COMMENT.sub("", "\n\n".join(parts) or text).strip()


def read_independent_test(lines: Sequence[str]) -> str:
    """Return the paragraph that says how a story is tried out on its own."""
    for number, line in enumerate(lines):
        if found := _INDEPENDENT.match(line):
            rest = lines[number + 1 :]
            end = next((n for n, one in enumerate(rest) if not one.strip() or _BOLD.match(one)), len(rest))
            return "\n".join([found[1].strip(), *(one.rstrip() for one in rest[:end])]).strip()
    return ""


def _read_story(found: Markdown, head: Heading, key: str) -> Story:
    lines = found.section(head)
    text = _COMMENT.sub("", strip_blank(lines)).removesuffix("---").strip()
    scenarios = list(_scenarios(lines)) or [text]
    criteria = tuple(
        Criterion(f"{key}/AC{number}", words, True) for number, words in enumerate(scenarios, 1) if words
    )
    return Story(key, plain(head.text), text, criteria, read_independent_test(lines))


def _scenarios(lines: Sequence[str]) -> Iterator[str]:
    """Yield the items below "Acceptance Scenarios", each on one line."""
    start = next((number for number, line in enumerate(lines) if _SCENARIOS.match(line)), None)
    item = ""
    for line in lines[start + 1 :] if start is not None else ():
        found = _ITEM.match(line)
        if found and not found[1]:
            yield from [item] if item else []
            item = found[2].replace("**", "").strip()
        elif not line.strip():
            continue
        elif line[0] in " \t" and item:
            item += f" {' '.join(line.replace('**', '').split())}"
        else:
            break
    yield from [item] if item else []


def _requirements(found: Markdown) -> Iterator[tuple[str, str]]:
    """Yield each id with its whole text; where an id is defined twice, the first definition counts."""
    known: set[str] = set()
    for number, line in enumerate(found.lines):
        named = _REQUIREMENT.match(line) if number not in found.hidden else None
        if named is None or named[1] in known:
            continue
        known.add(named[1])
        below = []
        for more in found.lines[number + 1 :]:
            if not more.strip() or more[0] not in " \t" or _REQUIREMENT.match(more):
                break
            below.append(more.rstrip())
        head = line.strip().lstrip("-*+# ").replace("**", "")
        yield named[1], "\n".join([head, *below])
