"""Reads spec.md, plan.md and constitution.md: stories with their scenarios, requirements, sections."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field

from segue.domain.verdict import Criterion
from segue.sources.markdown.lines import (
    Heading,
    Line,
    decode,
    heading,
    list_item,
    plain,
    read_lines,
    readable,
)

_STORY_WORD = r"(?:\bUS-?|(?i:user[ -]?stor(?:y|ies)|\bstory)\s*[#№-]?\s*)"
_STORY_NUMBER = r"[0-9]{1,3}[a-z]?(?![A-Za-z0-9])"
_STORY = re.compile(rf"{_STORY_WORD}{_STORY_NUMBER}(?:\s*(?:[&+,/]|and\b)\s*{_STORY_WORD}?{_STORY_NUMBER})*")
_NUMBER = re.compile(r"[0-9]{1,3}[a-z]?(?![A-Za-z0-9])")
_STARTS_STORY = re.compile(rf"[\W_]*(?:[0-9]+(?:\.[0-9]+)*[.)]?\s+)?(?={_STORY_WORD}{_STORY_NUMBER})")

_INDEPENDENT = re.compile(
    r"\s*(?:[-*+]\s+)?\*\*\s*(?:independent\s+test\w*)[^*]{0,40}\*\*\s*[:：]?\s*(.*)",
    re.IGNORECASE | re.DOTALL,
)
_BOLD = re.compile(r"\s*(?:[-*+]\s+)?\*\*")


def stories_in(text: str, at_start: bool = False) -> tuple[str, ...]:
    """Return the user stories that a heading or a label names, as `US1`."""
    if at_start:
        start = _STARTS_STORY.match(text)
        found = _STORY.match(text, start.end()) if start else None
    else:
        found = _STORY.search(text)
    numbers = _NUMBER.findall(found[0]) if found else []
    return tuple(dict.fromkeys(f"US{number.lstrip('0') or '0'}" for number in numbers))


def independent_test(lines: Sequence[Line], start: int) -> str:
    """Return the paragraph that begins at a line if it says how a story is tried out on its own."""
    found = None if lines[start].block else _INDEPENDENT.match(lines[start].text)
    if found is None:
        return ""
    text = [found[1].strip()]
    for index in range(start + 1, len(lines)):
        line = lines[index]
        if not line.block and (not line.text.strip() or _BOLD.match(line.text) or heading(line)):
            break
        text.append(line.text.rstrip())
    return "\n".join(text).strip()


ACCEPTANCE = re.compile(r"acceptance|scenario", re.IGNORECASE)
"""Words of a line or heading that announces the scenarios."""

_GIVEN = re.compile(r"\W*(?:given)", re.IGNORECASE)
_GOES_ON = re.compile(r"\W*(?:when|then|and|but)(?![a-z])", re.IGNORECASE)
_TITLE = re.compile(r"\s*(?:\*\*|__)[^*_]")


def scenarios(section: Sequence[Line]) -> tuple[str, ...]:
    """The scenarios in their order: the list below its announcement, else whatever begins with Given."""
    for index, line in enumerate(section):
        if _announces(line) and (found := _items(_list_below(section[index + 1 :]))):
            return tuple(found)
    return tuple(text for text in _items(section) if _GIVEN.match(text))


def _announces(line: Line) -> bool:
    if line.block or list_item(line) is not None:
        return False
    return bool((heading(line) or _TITLE.match(line.text)) and ACCEPTANCE.search(line.text))


def _list_below(section: Iterable[Line]) -> list[Line]:
    """Return the lines up to the next title that announces something else, once the list has begun."""
    kept: list[Line] = []
    for line in section:
        is_title = heading(line) or (_TITLE.match(line.text) and line.indent < 2)
        ends = is_title or line.text.strip() == "---"
        if ends and not _GIVEN.match(line.text) and not _GOES_ON.match(line.text) and list_item(line) is None:
            # A scenario may have a title of its own: what ends the list is a title of another kind.
            if not ACCEPTANCE.search(line.text):
                break
            continue
        kept.append(line)
    return kept


def _items(lines: Iterable[Line]) -> list[str]:
    """Return list items, and lines that begin with Given, each with the lines that continue it."""
    items: list[str] = []
    least: int | None = None
    for line in lines:
        text = list_item(line)
        if line.block or not line.text.strip() or (text is None and heading(line)):
            continue
        words = " ".join((text or line.text).replace("**", "").split())
        is_item = text is not None and (least is None or line.indent <= least)
        if (is_item or _GIVEN.match(words)) and not (items and _GOES_ON.match(words)):
            least = line.indent if text is not None and least is None else least
            items.append(words)
        elif items and (text is not None or line.indent > (least or 0) or _GOES_ON.match(words)):
            items[-1] += f" {words}"
    return items


_PRIORITY = re.compile(r"\bP[0-9]\b")
_PRIMARY = re.compile(r"primary user story|main user story", re.IGNORECASE)
_EDGE = re.compile(r"edge case", re.IGNORECASE)
_SUMMARY = re.compile(r"summary|overview", re.IGNORECASE)
_TECHNICAL = re.compile(r"technical context|tech(?:nology)? stack", re.IGNORECASE)
_CLARIFICATIONS = re.compile(r"clarification", re.IGNORECASE)
_ASSUMPTIONS = re.compile(r"assumption", re.IGNORECASE)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_ID = r"(?:FR|NFR|SC)-?(?:[A-Z]{1,8}-)?[0-9]{1,4}[a-z]?(?![A-Za-z0-9])"
_DEFINES = re.compile(
    rf"\s*(?:[-*+]\s+|[0-9]{{1,9}}[.)]\s+|#{{2,6}}\s+|\|\s*)?(?:\[.\]\s+)?[*_`\[]*({_ID})[*_`\]]*\s*(?=[:：|.)*–—\s-]|$)"
)
_QUOTED = re.compile(
    rf"(?<![A-Za-z0-9-])({_ID})(?:\s*(?:-|–|—|\.\.|to|through)\s*(?:(?:FR|NFR|SC)-|(?=0))([0-9]{{2,4}})(?![0-9]))?"
)


class Story(Struct, frozen=True):
    """A user story: its section, and the scenarios by which it is accepted."""

    key: str
    title: str
    priority: str
    text: str
    scenarios: tuple[Criterion, ...] = ()
    independent_test: str = ""
    """How the story is tried out on its own."""


class Spec(Struct, frozen=True):
    """A spec.md as it was understood."""

    stories: Mapping[str, Story] = field(default_factory=dict)
    requirements: Mapping[str, str] = field(default_factory=dict)
    """By id, in order: FR-001, SC-002 and so on."""
    edge_cases: str = ""
    clarifications: str = ""
    assumptions: str = ""
    primary: str | None = None
    """The one story of the old template, which has no numbers: it is every task's story."""

    def story(self, key: str) -> Story | None:
        """Return the story a label means; a part of a story (US2b) is found by its number."""
        return self.stories.get(key) or self.stories.get(key.rstrip("abcdefghijklmnopqrstuvwxyz"))

    def quoted(self, text: str) -> dict[str, str]:
        """Return the requirements whose ids stand in the text, ranges (FR-003 to FR-005) included."""
        found: dict[str, str] = {}
        for match in _QUOTED.finditer(text):
            for key in _range(match[1], match[2]):
                if key in self.requirements:
                    found[key] = self.requirements[key]
        return found


class Plan(Struct, frozen=True):
    """The sections of plan.md that an agent needs."""

    summary: str = ""
    technical: str = ""


def parse_spec(data: bytes, name: str = "spec.md") -> Spec:
    """Understand spec.md."""
    lines = read_lines(readable(decode(data, name)))
    headings = _headings(lines)
    stories = dict(_stories(lines, headings))
    edge = next((_section(lines, headings, head) for head in headings if _EDGE.search(head.text)), ())
    primary = None
    if not stories and (only := _primary(lines, headings)):
        stories, primary = {only.key: only}, only.key
    return Spec(
        stories,
        dict(_requirements(lines)),
        _text(edge),
        _find_section(lines, headings, _CLARIFICATIONS),
        _find_section(lines, headings, _ASSUMPTIONS),
        primary,
    )


def parse_plan(data: bytes, name: str = "plan.md") -> Plan:
    """Find summary and technical context in plan.md."""
    lines = read_lines(readable(decode(data, name)))
    headings = _headings(lines)

    return Plan(_find_section(lines, headings, _SUMMARY), _find_section(lines, headings, _TECHNICAL))


def parse_constitution(data: bytes, name: str = "constitution.md") -> str:
    """Return the text of the constitution without comments such as its SYNC IMPACT REPORT.

    Nothing while it is the template that nobody has filled in.
    """
    text = readable(decode(data, name)).removeprefix("\ufeff").replace("\r\n", "\n")
    text = re.sub(r"\n{3,}", "\n\n", _COMMENT.sub("", text)).strip()
    return "" if "[PROJECT_NAME]" in text else text


def _find_section(lines: Sequence[Line], headings: Sequence[Heading], pattern: re.Pattern[str]) -> str:
    """Return the first section below the title whose heading matches."""
    found = (head for head in headings if head.level > 1 and pattern.search(head.text))
    return next((_text(_section(lines, headings, head)) for head in found), "")


def _headings(lines: Iterable[Line]) -> list[Heading]:
    return [head for line in lines if (head := heading(line))]


def _section(lines: Sequence[Line], headings: Sequence[Heading], head: Heading) -> Sequence[Line]:
    """Return the lines from a heading to the next one of its level or above."""
    ends = (other.number for other in headings if other.number > head.number and other.level <= head.level)
    return lines[head.number - 1 : next(ends, len(lines) + 1) - 1]


def _text(lines: Iterable[Line]) -> str:
    text = _COMMENT.sub("", "\n".join(line.text.rstrip() for line in lines))
    return text.strip("\n").removesuffix("\n---").strip("\n")


def _stories(lines: Sequence[Line], headings: Sequence[Heading]) -> Iterator[tuple[str, Story]]:
    known: set[str] = set()
    for head in headings:
        for key in stories_in(head.text, at_start=True):
            if key in known or head.level == 1:
                continue
            known.add(key)
            section = _section(lines, headings, head)
            priority = _PRIORITY.search(head.text)
            found = scenarios(section[1:])
            yield (
                key,
                Story(
                    key,
                    plain(head.text),
                    priority[0] if priority else "",
                    _text(section),
                    _criteria(key, found),
                    next(filter(None, (independent_test(section, n) for n in range(len(section)))), ""),
                ),
            )


def _criteria(key: str, texts: Sequence[str]) -> tuple[Criterion, ...]:
    return tuple(Criterion(f"{key}/AC{number}", text, True) for number, text in enumerate(texts, start=1))


def _primary(lines: Sequence[Line], headings: Sequence[Heading]) -> Story | None:
    story = next((head for head in headings if _PRIMARY.search(head.text)), None)
    accepted = next((head for head in headings if head.level > 2 and ACCEPTANCE.search(head.text)), None)
    if story is None:
        return None
    text = _text(_section(lines, headings, story))
    found: tuple[str, ...] = ()
    if accepted is not None:
        section = _section(lines, headings, accepted)
        found = scenarios(section)
        text = f"{text}\n\n{_text(section)}"
    return Story("US1", plain(story.text), "", text, _criteria("US1", found))


def _requirements(lines: Sequence[Line]) -> Iterator[tuple[str, str]]:
    """Return each id with its whole text; where an id is defined twice, the first definition counts."""
    known: set[str] = set()
    for index, line in enumerate(lines):
        found = None if line.block else _DEFINES.match(line.text)
        if found and found[1] not in known:
            known.add(found[1])
            yield found[1], _definition(lines, index)


def _definition(lines: Sequence[Line], index: int) -> str:
    """Return the line that defines a requirement, with the lines indented below it or below its heading."""
    first, is_heading = lines[index], heading(lines[index]) is not None
    last = index
    for number in range(index + 1, len(lines)):
        line = lines[number]
        if not line.text.strip():
            continue
        if heading(line) or _DEFINES.match(line.text) or not (is_heading or line.indent > first.indent):
            break
        last = number
    head = (list_item(first) or first.text).strip().lstrip("#| ").replace("**", "")
    return "\n".join([head, *(line.text.rstrip() for line in lines[index + 1 : last + 1])])


def _range(first: str, last: str | None) -> list[str]:
    digits = re.search(r"[0-9]+", first)
    if last is None or digits is None or not 0 < int(last) - int(digits[0]) < 200:
        return [first]
    prefix, width = first[: digits.start()], len(digits[0])
    return [f"{prefix}{number:0{width}d}" for number in range(int(digits[0]), int(last) + 1)]
