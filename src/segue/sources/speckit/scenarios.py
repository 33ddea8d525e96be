"""Finds the acceptance scenarios of a user story, however its list is written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from segue.sources.markdown.lines import Line, heading, list_item

ACCEPTANCE = re.compile(
    r"acceptance|scenario|验收|驗收|场景|受け入れ|シナリオ|인수|시나리오|acepta|escenario|aceita|cenário|acceptation"
    r"|scénario|akzeptanz|szenari|accettazione|приём|прием|сценари|nghiệm thu|kịch bản|kabul|akceptac",
    re.IGNORECASE,
)
"""Words of a line or heading that announces the scenarios."""

_GIVEN = re.compile(
    r"\W*(?:given|dado|dada|étant donné|gegeben|angenommen|dato|假设|假如|给定|前提|주어진|дано)",
    re.IGNORECASE,
)
_GOES_ON = re.compile(
    r"\W*(?:when|then|and|but|cuando|entonces|quando|então|quand|alors|wenn|dann|当|那么|もし|ならば|когда|тогда)"
    r"(?![a-z])",
    re.IGNORECASE,
)
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
    """The lines up to the next title that announces something else, once the list has begun."""
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
