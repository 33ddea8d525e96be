"""Draws SVG: the frame of every drawing, and the timeline of a run: a bar per step, coloured by phase."""

from __future__ import annotations

from html import escape

from segue.domain.amounts import format_duration
from segue.domain.text import cut_text
from segue.flow.phase import PHASES, VERIFY
from segue.reports.timeline import Bar, Timeline, TimelineRow

_LABELS = {"sleep": "Waiting for usage limit", "before": "Check what it begins with"}

SIGNS = {"PASS": "✓", "FAIL": "✗", "PARTIAL": "◐"}

COLOURS = 12
"""Colours for phases: the classes `phase-1` and so on; `phase-0` is that of all other steps."""

_WIDTH = 1000
_LANE = 46
_HEAD = 18
_BAR = 18
_THIN = 3
"""The least width of a bar, so that short steps can be seen."""

_LETTER = 6.6
"""The approximate width of a letter."""


def wrap_svg(
    width: float,
    height: float,
    label: str,
    inside: str,
    kind: str = "bar",
    fixed: bool = False,
    describe: str = "",
) -> str:
    """Wrap SVG elements into a drawing with a label for screen readers; `fixed`: it is not scaled.

    `describe` says what the drawing shows; such a drawing is a group, so that links in it can be reached.
    """
    safe = escape_text(label)
    if describe:
        head = f'class="{kind}" viewBox="0 0 {width:g} {height:g}" role="group" aria-label="{safe}"'
        return f"<svg {head}><title>{safe}</title><desc>{escape_text(describe)}</desc>{inside}</svg>"
    size = f'width="{width:g}" height="{height:g}" ' if fixed else ""
    role = "group" if "<a " in inside else "img"  # links inside a picture cannot be reached
    head = f'{size}class="{kind}" viewBox="0 0 {width:g} {height:g}" role="{role}" aria-label="{safe}"'
    return f"<svg {head}><title>{safe}</title>{inside}</svg>"


def escape_text(text: str) -> str:
    """Escape untrusted text for a drawing, and remove what XML forbids."""
    return escape("".join(char if char.isprintable() else " " for char in text))


def draw_timeline(timeline: Timeline, link: str = "") -> str:
    """Draw the timeline; empty without steps. With a link, each bar links there, with its number added."""
    if not timeline.lanes:
        return ""
    length = max(timeline.seconds, 0.001)
    height = _HEAD + _LANE * len(timeline.lanes)
    parts = [draw_axis(length, height)]
    parts += [
        _draw_lane(lane, _HEAD + number * _LANE, length, link) for number, lane in enumerate(timeline.lanes)
    ]
    return wrap_svg(_WIDTH, height, f"Timeline of run {timeline.run}", "".join(parts), "timeline")


def list_phases(timeline: Timeline) -> list[str]:
    """List the phases that occur in a timeline, for its legend."""
    used = {bar.phase if bar.phase in PHASES else "other" for lane in timeline.lanes for bar in lane.bars}
    return [phase for phase in (*PHASES, "other") if phase in used]


def label_phase(phase: str) -> str:
    """Return the name of a phase as people read it."""
    return PHASES[phase].label if phase in PHASES else _LABELS.get(phase, phase)


def colour_phase(phase: str) -> str:
    """Return the CSS class with the colour of a phase."""
    place = list(PHASES).index(phase) + 1 if phase in PHASES else 0
    return f"phase-{place}" if place <= COLOURS else "phase-0"


def draw_axis(length: float, height: float) -> str:
    """Draw the lines and labels of an axis of this many seconds."""
    parts = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        x = share * _WIDTH
        anchor = {0.0: "start", 1.0: "end"}.get(share, "middle")
        parts.append(f'<line class="tick" x1="{x:g}" x2="{x:g}" y1="14" y2="{height}"/>')
        time = format_duration(share * length)
        parts.append(f'<text class="small" x="{x:g}" y="10" text-anchor="{anchor}">{time}</text>')
    return "".join(parts)


def _draw_lane(lane: TimelineRow, top: float, length: float, link: str) -> str:
    sign = {"done": "✓ ", "needs_human": "✗ "}.get(lane.state, "")
    name = f"{lane.task}  {lane.title}" if lane.task else lane.title
    tag = f" · {lane.build_phase}" if lane.build_phase else ""
    title = escape_text(cut_text(name, 110) + tag)
    text = f'<text class="name" x="2" y="{top + 15}">{sign}{title}</text>'
    return text + "".join(_link(bar, link, _draw_step(bar, top + 21, length)) for bar in lane.bars)


def _link(bar: Bar, link: str, drawing: str) -> str:
    if not link:
        return drawing
    label = escape_text(_describe(bar))
    return f'<a href="{escape_text(link)}{bar.seq}" aria-label="{label}">{drawing}</a>'


def _draw_step(bar: Bar, top: float, length: float) -> str:
    x = min(bar.begin / length * _WIDTH, _WIDTH - _THIN)
    width = max(min(bar.end / length * _WIDTH, _WIDTH) - x, _THIN)
    kind = colour_phase(bar.phase)
    kind += {"started": " open", "failed": " bad"}.get(bar.state, "")
    label = _fit_label(bar, width)
    text = (
        f'<text class="small inside" x="{x + 3:.1f}" y="{top + 13}">{escape_text(label)}</text>'
        if label
        else ""
    )
    return (
        f'<g><title>{escape_text(_describe(bar))}</title><rect class="step {kind}" x="{x:.1f}" y="{top}"'
        f' width="{width:.1f}" height="{_BAR}" rx="2"/>{text}</g>'
    )


def _fit_label(bar: Bar, width: float) -> str:
    """Return as much text as fits into the bar; its description, which is read aloud, begins so too."""
    name, time = _name(bar), format_duration(bar.seconds)
    sign = SIGNS.get(bar.result, "") if bar.phase == VERIFY.name else ""
    for text in (f"{name} · {time} {sign}".strip(), f"{name} {sign}".strip(), sign):
        if text and len(text) * _LETTER + 6 <= width:
            return text
    return ""


def _name(bar: Bar) -> str:
    return f"{label_phase(bar.phase)} {bar.attempt}"


def _describe(bar: Bar) -> str:
    parts = (
        _name(bar),
        format_duration(bar.seconds),
        bar.who,
        bar.result,
        bar.action,
        bar.reason,
    )
    return cut_text(" · ".join(part for part in parts if part), 400)
