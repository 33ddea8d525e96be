"""The text of a pull request: what the run did in one table, and the proof cards below it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from segue.domain.amounts import format_count, list_some
from segue.domain.delivery import is_feedback
from segue.domain.events import NOT_ISOLATED
from segue.domain.proof import Level
from segue.domain.text import plain
from segue.reports.card.card import ProofCard
from segue.reports.card.layout import lay_out
from segue.reports.card.markdown import escape_markdown, render_markdown

_LONGEST_TITLE = 100
_LISTED = 3
_DONE = ("done", "skipped")
_GONE = "replanned"
_FILE = re.compile(r"\S*(?:/|\.\w+$)\S*")


def render_request(cards: Sequence[ProofCard], run: str, note: str = "") -> str:
    """Render the text; `note` says why the work is not ready yet."""
    return "\n".join(_lines([card for card in cards if card.state != _GONE], run, note)).strip() + "\n"


def weakest_level(cards: Sequence[ProofCard]) -> str:
    """Return the level that all tasks reach; empty if one is not done or has no proof."""
    counted = [card for card in cards if card.state not in ("skipped", _GONE) and not _is_answer(card)]
    levels = [card.level for card in counted if card.state == "done" and card.level is not None]
    return min(levels, key=lambda level: level.rank) if levels and len(levels) == len(counted) else ""


def _is_answer(card: ProofCard) -> bool:
    """Return whether a comment was answered without a change: that proves nothing, and takes nothing away."""
    return is_feedback(card.task) and card.state == "done" and card.commit is None


def write_title(title: str, cards: Sequence[ProofCard]) -> str:
    """Return one line that says what the work is about: the goal, or the tasks where that is only a file."""
    names = [plain(card.title, _LONGEST_TITLE) for card in cards if card.state != _GONE]
    if names and (_FILE.fullmatch(title) or not title):
        title = "; ".join(names[:2]) or title
        if len(title) > _LONGEST_TITLE:
            title = names[0]
        shown = 2 if title != names[0] else 1
        more = len(names) - shown
        ending = f" and {format_count(more, 'more task')}" if more > 0 else ""
        return plain(title, _LONGEST_TITLE - len(ending)) + ending
    return plain(title, _LONGEST_TITLE)


def _lines(cards: Sequence[ProofCard], run: str, note: str) -> Iterator[str]:
    done = sum(card.state in _DONE for card in cards)
    level = weakest_level(cards)
    agents = ", ".join(dict.fromkeys(agent for card in cards for agent in card.agents))
    by = f" by {escape_markdown(agents)}" if agents else ""
    proof = f" Every task is at least **{level}**." if level else ""
    exposed = any(card.isolation == NOT_ISOLATED for card in cards)
    free = f" The agents were **{NOT_ISOLATED}**." if exposed else ""
    yield f"{done} of {format_count(len(cards), 'task')} done{by}.{proof}{free}"
    if note:
        yield ""
        yield f"> {escape_markdown(note)}"
    yield ""
    yield "| task | | proof |"
    yield "|---|---|---|"
    for card in cards:
        shown = card.conclusion or card.state.replace("_", " ")
        if card.look_at:
            shown += f", look at {list_some(card.look_at, _LISTED)}"
        yield f"| {escape_markdown(card.task)} | {escape_markdown(card.title)} | {escape_markdown(shown)} |"
    yield ""
    yield "<details><summary>Proof of each task</summary>"
    yield ""
    yield render_markdown([lay_out(card) for card in cards]).rstrip()
    yield ""
    yield "</details>"
    yield ""
    yield f"Run {run} of Segue. Levels of proof: {', '.join(Level)}."
