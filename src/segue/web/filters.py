"""How values look on the page: numbers, durations, instants and badges, in the same words everywhere."""

from __future__ import annotations

import time
from functools import cache
from typing import TYPE_CHECKING, Any

from segue.domain.plain import clean, plain
from segue.reports.formatting import format_duration, format_quantity

if TYPE_CHECKING:
    from jinja2 import Environment

SIGNS = {
    "running": "▶",
    "started": "▶",
    "parked": "⏸",
    "pending": "○",
    "done": "✓",
    "PASS": "✓",
    "met": "✓",
    "ok": "✓",
    "failed": "✗",
    "FAIL": "✗",
    "not met": "✗",
    "stopped": "■",
    "needs_human": "!",
    "PARTIAL": "◐",
    "skipped": "↷",
    "cancelled": "↷",
    "replanned": "↻",
    "refused": "✗",
    "sent": "✓",
    "set": "⏸",
}
"""A sign for every state, so that colour is never the only one."""

_TONES = {
    "good": ("done", "PASS", "met", "ok", "sent"),
    "busy": ("running", "started"),
    "bad": ("failed", "FAIL", "needs_human", "not met", "refused"),
    "wait": ("parked", "stopped", "PARTIAL", "set"),
}


@cache
def environment() -> Environment:
    """Where templates are read and rendered: everything is escaped, and cleaned of what nobody should see."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("segue.web"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(
        duration=_duration,
        moment=moment,
        ago=ago,
        amount=amount,
        money=money,
        badge=badge,
        words=words,
        shortened=shortened,
        local=local,
        asset=asset,
        drawing=_drawing,
        legend=_legend,
        figures=_figures,
        headings=_headings,
    )
    return made


def words(name: str) -> str:
    """A name of the machine as people say it."""
    return name.replace("_", " ")


def shortened(text: str, most: int) -> str:
    """The text on one line of at most so many characters."""
    return plain(clean(str(text)[: 8 * most]), most)


def local(url: Any) -> str:
    """The part of an address that stays on this server."""
    return f"{url.path}?{url.query}" if url.query else str(url.path)


def amount(number: float) -> str:
    """A count with its thousands apart, short when it is large."""
    return f"{number:,.0f}" if number < 100_000 else format_quantity(float(number), "")


def money(dollars: float) -> str:
    """An amount of money."""
    return format_quantity(float(dollars), "cost_usd")


def moment(ms: int | None) -> Any:
    """An instant: the time of this machine to read, the whole date on hover."""
    from markupsafe import Markup

    if ms is None:
        return "–"
    here = time.localtime(ms / 1000)
    days = (time.time() - ms / 1000) / 86400
    short = time.strftime("%H:%M:%S" if abs(days) < 0.75 else "%d %b %H:%M", here)
    exact = time.strftime("%Y-%m-%d %H:%M:%S %z", here)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ms / 1000)), exact, short
    )


def ago(ms: int | None) -> Any:
    """How long ago an instant was; the page counts on by itself."""
    from markupsafe import Markup

    if ms is None:
        return "–"
    exact = time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(ms / 1000))
    return Markup('<time data-ago="{}" title="{}">{}</time>').format(ms, exact, _ago(time.time() - ms / 1000))


def _ago(seconds: float) -> str:
    for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size:.0f} {name} ago"
    return "just now"


def badge(state: str | None) -> Any:
    """A state as a coloured word with a sign."""
    from markupsafe import Markup

    if not state:
        return ""
    tone = next((tone for tone, states in _TONES.items() if state in states), "calm")
    return Markup('<span class="badge {}"><span aria-hidden="true">{}</span> {}</span>').format(
        tone, SIGNS.get(state, "·"), words(state)
    )


def asset(name: str) -> str:
    """The address of a file of ours, which changes with its content."""
    from segue.web.assets import assets

    return f"/static/{name}?v={assets()[name].digest}"


def _drawing(data: Any) -> Any:
    """The timeline of a run's page. The drawing has escaped what it shows."""
    from markupsafe import Markup

    from segue.web.run import drawing

    return Markup(drawing(data))  # noqa: S704


def _figures(data: Any, table: Any) -> Any:
    from segue.web.figures import figures

    return figures(data, table)


def _headings(table: Any) -> list[str]:
    from segue.web.figures import headings

    return headings(table)


def _legend(data: Any) -> list[str]:
    from segue.web.run import legend

    return legend(data)


def _duration(seconds: float | None) -> str:
    return "–" if seconds is None else format_duration(seconds)


def _visible(value: Any) -> Any:
    """What is printed by a template: text of agents loses escapes and control characters."""
    if value is None:
        return ""
    return clean(value) if type(value) is str else value
