"""The templates: their environment, the static files, and filters for numbers, times and badges."""

from __future__ import annotations

import hashlib
import re
import time
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from msgspec import Struct

from segue.domain.amounts import (
    describe_until,
    format_between,
    format_count,
    format_duration,
    format_quantity,
)
from segue.domain.events import NOT_ISOLATED
from segue.domain.statement import MEANINGS, UNVERIFIED
from segue.domain.text import clean, plain
from segue.plugins import PAGES
from segue.web.syntax import colour_code
from segue.web.timeline import colour_phase, label_phase

_GOOD, _PARTLY = "✓", "◐"
LEVELS = tuple(level.value for level in MEANINGS)
"""The levels of proof that have a colour of their own."""

MEDIA_TYPES = {
    "segue.css": "text/css",
    "segue.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
"""The files under `static/`."""


class Asset(Struct, frozen=True):
    """One static file."""

    body: bytes
    media_type: str
    digest: str


@cache
def load_assets() -> dict[str, Asset]:
    """Read the files, by name; the style sheet has those of the parts at its end."""
    folder = files("segue.web") / "static"
    bodies = {name: (folder / name).read_bytes() for name in MEDIA_TYPES}
    sheets = [files(package) / "templates" / "page.css" for package in _packages()]
    bodies["segue.css"] += b"".join(sheet.read_bytes() for sheet in sheets if sheet.is_file())
    return {
        name: Asset(body, MEDIA_TYPES[name], hashlib.sha256(body).hexdigest()[:12])
        for name, body in bodies.items()
    }


def _packages() -> list[str]:
    """Return the packages with templates: this one, and those of features' pages."""
    of_features = [name.rpartition(".")[0] for name in PAGES]
    return [
        name for name in ("segue.web", *dict.fromkeys(of_features)) if (files(name) / "templates").is_dir()
    ]


@cache
def create_environment() -> Environment:
    """Create the environment of the templates: everything is escaped and free of control characters."""
    made = Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in _packages()]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        finalize=_clean_value,
    )
    made.filters.update(
        between=format_between,
        duration=_format_duration,
        moment=format_moment,
        until=lambda ms: describe_until(ms / 1000),
        ago=format_ago,
        amount=format_amount,
        money=format_money,
        badge=make_badge,
        words=split_words,
        phase=label_phase,
        colour=colour_phase,
        task_badge=make_task_badge,
        run_badge=make_run_badge,
        proof_badge=make_proof_badge,
        tampering_badge=make_tampering_badge,
        sandbox_badge=make_sandbox_badge,
        shortened=shorten,
        local=to_local,
        since=find_beginning,
        highlight=highlight,
        code=colour_code,
        level=make_level_chip,
        task_sign=make_task_sign,
        asset=link_asset,
        home=lambda run: f"/runs/{run['id']}",
    )
    return made


def split_words(name: str) -> str:
    """Replace underscores by spaces."""
    return name.replace("_", " ")


def shorten(text: str, most: int) -> str:
    """Shorten a text to one line of at most this many characters."""
    return plain(clean(str(text)[: 8 * most]), most)


def highlight(text: str, words: str) -> Any:
    """Mark the words in a text, whatever their case."""
    if not words:
        return text
    parts = re.split(f"({re.escape(words)})", clean(text), flags=re.IGNORECASE)
    marked = (
        Markup("<mark>{}</mark>").format(part) if place % 2 else part for place, part in enumerate(parts)
    )
    return Markup("").join(marked)


def to_local(url: Any) -> str:
    """Return path and query of an address."""
    return f"{url.path}?{url.query}" if url.query else str(url.path)


def format_amount(number: float) -> str:
    """Format a count with thousands separators, shortened if it is large."""
    return f"{number:,.0f}" if number < 100_000 else format_quantity(float(number), "")


def format_money(dollars: float | None) -> str:
    """Format an amount of dollars; None: nobody reports it."""
    return "not reported" if dollars is None else format_quantity(float(dollars), "cost_usd")


def format_moment(ms: int | None) -> Any:
    """Format an instant: local time, with the full date on hover."""
    if ms is None:
        return "–"
    here = time.localtime(ms / 1000)
    is_today = here[:3] == time.localtime()[:3]
    short = time.strftime("%H:%M:%S" if is_today else "%d %b %H:%M", here)
    exact = time.strftime("%Y-%m-%d %H:%M:%S %z", here)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ms / 1000)), exact, short
    )


def format_ago(ms: int | None) -> Any:
    """Format how long ago an instant was; the script keeps it up to date."""
    if ms is None:
        return "–"
    exact = time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(ms / 1000))
    return Markup('<time data-ago="{}" title="{}">{}</time>').format(
        ms, exact, _describe_age(time.time() - ms / 1000)
    )


def _describe_age(seconds: float) -> str:
    for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size:.0f} {name} ago"
    return "just now"


def make_badge(state: str | None) -> Any:
    """Format a state as a coloured word with a sign."""
    if not state:
        return ""
    tone, sign = _load_signs().get(state, ("calm", "·"))
    return _draw_badge(tone, sign, split_words(state))


def make_task_badge(task: Mapping[str, Any]) -> Any:
    """Format the state of a task; one that is done with open findings, or unproven, is not simply good."""
    count, verdict = task["remaining"], task["verdict"]
    if task["state"] != "done":
        return make_badge(task["state"])
    if count:
        return _draw_badge("wait", _PARTLY, f"done, {format_count(count, 'finding')} open")
    proven = task["proof"] is None or verdict == "PASS"
    return _draw_badge("good" if proven else "calm", _GOOD, "done")


def make_run_badge(run: Mapping[str, Any]) -> Any:
    """Format the state of a run; one that is done with open findings is not simply good."""
    if run["state"] == "done" and run["findings"]:
        return _draw_badge("wait", _PARTLY, f"done, {format_count(run['findings'], 'finding')} open")
    return make_badge(run["state"])


def make_proof_badge(task: Mapping[str, Any]) -> Any:
    """Format how well a task that is done is proven; empty if that is not known."""
    if task["proof"] is None:
        return ""
    proven = task["verdict"] == "PASS"
    unproven = "wait" if task["conclusion"] == UNVERIFIED else "calm"
    tone = "good" if proven else unproven
    return _draw_badge(tone, _GOOD if proven else "·", task["conclusion"])


def make_level_chip(task: Mapping[str, Any]) -> Any:
    """Format the level of a task's proof as a chip; levels are the only colours beside those of states."""
    level = task["proof"]
    if not level:
        return ""
    chip = Markup('<span class="chip level {}" title="{}">{}</span>')
    return chip.format(level if level in LEVELS else "accepted", task["conclusion"], level)


def make_task_sign(task: Mapping[str, Any]) -> Any:
    """Format the state of a task as a sign with a name."""
    tone, sign = _load_signs().get(task["state"], ("calm", "·"))
    drawing = '<span class="state {}" role="img" aria-label="{}">{}</span>'
    return Markup(drawing).format(tone, split_words(task["state"]), sign)  # noqa: S704 - `format` escapes


def make_tampering_badge(count: int) -> Any:
    """Format how often an agent changed what decides about its own work; empty if it never did."""
    return _draw_badge("bad", "!", f"tampering: {count}") if count else ""


def make_sandbox_badge(isolation: str) -> Any:
    """Format the sandbox that agents worked in; that there was none is not to be missed."""
    return _draw_badge("bad", "!", isolation) if isolation == NOT_ISOLATED else isolation


@cache
def _load_signs() -> dict[str, tuple[str, str]]:
    """Return the tone and the sign of every state, from `badges.toml`."""
    tones = tomllib.loads((files("segue.web") / "badges.toml").read_text("utf-8"))
    return {state: (tone, sign) for tone, signs in tones.items() for state, sign in signs.items()}


def _draw_badge(tone: str, sign: str, text: str) -> Any:
    drawing = '<span class="badge {}"><span aria-hidden="true">{}</span> {}</span>'
    return Markup(drawing).format(tone, sign, text)  # noqa: S704 - `format` escapes


def find_beginning(seconds: float) -> int:
    """Return the instant from which a clock must count so that it shows these seconds now."""
    return int((time.time() - seconds) * 1000)


def link_asset(name: str) -> str:
    """Return the address of a static file, which changes with its content."""
    return f"/static/{name}?v={load_assets()[name].digest}"


def _format_duration(seconds: float | None) -> str:
    return "–" if seconds is None else format_duration(seconds)


def _clean_value(value: Any) -> Any:
    """Remove escapes and control characters from text before a template prints it."""
    if value is None:
        return ""
    return clean(value) if type(value) is str else value
