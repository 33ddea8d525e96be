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
from segue.sources.speckit.lines import independent_test, stories_in
from segue.sources.speckit.scenarios import ACCEPTANCE, scenarios

_PRIORITY = re.compile(r"\bP[0-9]\b")
_NUMBERED = re.compile(r"\D{2,60}?([0-9]{1,3})\s*[-–—:：.]")
_PRIMARY = re.compile(
    r"primary user story|main user story|主要用户故事|主要なユーザーストーリー", re.IGNORECASE
)
_EDGE = re.compile(
    r"edge case|边界|邊界|エッジケース|엣지|예외|casos? (?:límite|extremo|de borda|limite)|cas limites"
    r"|grenzfäll|randfäll|casi limite|граничн|крайн|пограничн|trường hợp biên",
    re.IGNORECASE,
)
_SUMMARY = re.compile(
    r"summary|overview|概要|摘要|要約|요약|resum|résumé|zusammenfassung|sommario|сводка|обзор", re.I
)
_TECHNICAL = re.compile(
    r"technical context|tech(?:nology)? stack|技术|技術|기술|contexto técnico|contexte technique"
    r"|technischer kontext|contesto tecnico|технический",
    re.IGNORECASE,
)
_CLARIFICATIONS = re.compile(
    r"clarification|澄清|明確化|明确|명확화|aclaraci|esclarec|clarificación|klärung|klarstellung|chiariment|уточнен",
    re.IGNORECASE,
)
_ASSUMPTIONS = re.compile(
    r"assumption|假设|假設|前提|가정|supuesto|suposiç|premissa|hypothèse|annahme|assunzion|допущен|giả định",
    re.IGNORECASE,
)
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
        """The story a label means; a part of a story (US2b) is found by its number."""
        return self.stories.get(key) or self.stories.get(key.rstrip("abcdefghijklmnopqrstuvwxyz"))

    def quoted(self, text: str) -> dict[str, str]:
        """The requirements whose ids stand in the text, ranges (FR-003 to FR-005) included."""
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
    """Understand spec.md, in any language."""
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
    """The text of the constitution without comments such as its SYNC IMPACT REPORT.

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
    """The lines from a heading to the next one of its level or above."""
    ends = (other.number for other in headings if other.number > head.number and other.level <= head.level)
    return lines[head.number - 1 : next(ends, len(lines) + 1) - 1]


def _text(lines: Iterable[Line]) -> str:
    text = _COMMENT.sub("", "\n".join(line.text.rstrip() for line in lines))
    return text.strip("\n").removesuffix("\n---").strip("\n")


def _stories(lines: Sequence[Line], headings: Sequence[Heading]) -> Iterator[tuple[str, Story]]:
    known: set[str] = set()
    for head in headings:
        keys = stories_in(head.text, at_start=True) or _by_number(head)
        for key in keys:
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


def _by_number(head: Heading) -> tuple[str, ...]:
    """A story in a language we do not know still has its number and its priority."""
    found = _NUMBERED.match(head.text) if _PRIORITY.search(head.text) else None
    return (f"US{int(found[1])}",) if found else ()


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
    """Each id with its whole text; where an id is defined twice, the first definition counts."""
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
