"""The summary of a run in Markdown, for the page of a CI job: what is done, how well it is proven."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from segue.domain.amounts import format_duration, format_quantity
from segue.domain.run import Run, RunState
from segue.domain.text import plain
from segue.reports.card.card import ProofCard
from segue.reports.card.layout import lay_out
from segue.reports.card.markdown import escape_markdown, render_markdown

_MOST_BYTES = 900_000
"""GitHub refuses a job summary of more than a mebibyte."""
_MOST_ROWS = 500
_SIGNS = {"done": "✅", "skipped": "⏭️", "needs_human": "✋", "blocked": "⛔"}


def render_summary(
    run: Run, state: RunState, note: str, hint: str, cards: Sequence[ProofCard], spent: str = ""
) -> str:
    """Render the summary: a table of the tasks, what a person has to do, and the proof cards, folded.

    `spent` says how long agents worked and proving took.
    """
    head = "\n".join(_render_head(run, state, note, hint, cards, spent)) + "\n"
    parts, size = [head], len(head.encode())
    for card in cards:
        part = "\n".join(_fold(card))
        size += len(part.encode())
        if size > _MOST_BYTES:
            parts.append(f"\nThe other cards are left out: `segue proof {run.id}` prints them all.\n")
            break
        parts.append(part)
    return "".join(parts)


def _render_head(
    run: Run, state: RunState, note: str, hint: str, cards: Sequence[ProofCard], spent: str
) -> Iterator[str]:
    done = sum(card.state == "done" for card in cards)
    proven = sum(card.level is not None and card.level.proven for card in cards)
    yield f"## Segue: {state.replace('_', ' ')}"
    yield ""
    agent = escape_markdown(run.spec.agent)
    time = f" Time: {spent}." if spent else ""
    yield f"{done} of {len(cards)} tasks done, {proven} proven. Run `{run.id}` with {agent}.{time}"
    if note:
        yield ""
        yield f"> {escape_markdown(note)}"
    if hint:
        yield ">"
        yield f"> Next: {escape_markdown(hint)}"
    yield ""
    yield "| | task | proof | attempts | time | cost |"
    yield "|---|---|---|--:|--:|--:|"
    for card in cards[:_MOST_ROWS]:
        yield f"| {' | '.join(_list_cells(card))} |"
    if len(cards) > _MOST_ROWS:
        yield ""
        yield f"And {len(cards) - _MOST_ROWS} more tasks."


def _list_cells(card: ProofCard) -> Iterator[str]:
    yield _SIGNS.get(card.state, "·")
    yield escape_markdown(f"{card.task}: {card.title}")
    yield escape_markdown(card.conclusion if card.state == "done" else card.state.replace("_", " "))
    yield str(card.attempts or "")
    yield "" if card.seconds is None else format_duration(card.seconds)
    yield "" if card.cost_usd is None else format_quantity(card.cost_usd, "cost_usd")


def _fold(card: ProofCard) -> Iterator[str]:
    layout = lay_out(card)
    yield ""
    yield f"<details><summary>{escape(plain(layout.title, 200))}</summary>"
    yield ""
    yield render_markdown([layout])
    yield "</details>"
    yield ""
