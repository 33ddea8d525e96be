"""The timeline of a run as SVG: a lane per task, a bar per step, coloured by its phase."""

from __future__ import annotations

from segue.reports.charts import clean, svg
from segue.reports.timeline import Bar, Lane, Timeline
from segue.reports.wording import duration

PHASES = (
    "outline",
    "plan",
    "execute",
    "review",
    "address",
    "verify",
    "resolve",
    "search",
    "diagnostic",
    "replan",
)
"""The phases with a colour of their own."""

SIGNS = {"PASS": "✓", "FAIL": "✗", "PARTIAL": "◐"}

_WIDTH = 1000
_LANE = 46
_HEAD = 18
_BAR = 18
_THIN = 3
"""However short a step was, it can be seen."""

_LETTER = 6.6
"""How wide a letter is, about."""


def lanes(timeline: Timeline, link: str = "") -> str:
    """The drawing; empty when no step was begun. With a link, each bar leads there, with its number added."""
    if not timeline.lanes:
        return ""
    length = max(timeline.seconds, 0.001)
    height = _HEAD + _LANE * len(timeline.lanes)
    parts = [_axis(length, height)]
    parts += [_lane(lane, _HEAD + number * _LANE, length, link) for number, lane in enumerate(timeline.lanes)]
    return svg(_WIDTH, height, f"Timeline of run {timeline.run}", "".join(parts), "timeline")


def _axis(length: float, height: float) -> str:
    parts = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        x = share * _WIDTH
        anchor = {0.0: "start", 1.0: "end"}.get(share, "middle")
        parts.append(f'<line class="tick" x1="{x:g}" x2="{x:g}" y1="14" y2="{height}"/>')
        parts.append(
            f'<text class="small" x="{x:g}" y="10" text-anchor="{anchor}">{duration(share * length)}</text>'
        )
    return "".join(parts)


def _lane(lane: Lane, top: float, length: float, link: str) -> str:
    sign = {"done": "✓ ", "failed": "✗ "}.get(lane.ended, "")
    name = f"{lane.task}  {lane.title}" if lane.task else lane.title
    tag = f" · {lane.build_phase}" if lane.build_phase else ""
    text = f'<text class="name" x="2" y="{top + 15}">{sign}{clean(_cut(name, 110))}{clean(tag)}</text>'
    return text + "".join(_linked(bar, link, _step(bar, top + 21, length)) for bar in lane.bars)


def _linked(bar: Bar, link: str, drawing: str) -> str:
    if not link:
        return drawing
    return f'<a href="{clean(link)}{bar.seq}" aria-label="{clean(_cut(_told(bar), 400))}">{drawing}</a>'


def _step(bar: Bar, top: float, length: float) -> str:
    x = min(bar.begin / length * _WIDTH, _WIDTH - _THIN)
    width = max(min(bar.end / length * _WIDTH, _WIDTH) - x, _THIN)
    kind = bar.phase if bar.phase in PHASES else "other"
    kind += " open" if bar.state == "started" else " bad" if bar.state == "failed" else ""
    label = _label(bar, width)
    text = f'<text class="small inside" x="{x + 3:.1f}" y="{top + 13}">{clean(label)}</text>' if label else ""
    return (
        f'<g><title>{clean(_cut(_told(bar), 400))}</title><rect class="step {kind}" x="{x:.1f}" y="{top}"'
        f' width="{width:.1f}" height="{_BAR}" rx="2"/>{text}</g>'
    )


def _label(bar: Bar, width: float) -> str:
    """As much as fits into the bar."""
    sign = SIGNS.get(bar.result, "") if bar.phase == "verify" else ""
    for text in (f"{bar.phase} {sign} {duration(bar.seconds)}", f"{bar.phase} {sign}".strip(), sign):
        if text and len(text) * _LETTER + 6 <= width:
            return text
    return ""


def _told(bar: Bar) -> str:
    parts = (f"{bar.phase} {bar.attempt}", bar.who, duration(bar.seconds), bar.result, bar.action, bar.reason)
    return " · ".join(part for part in parts if part)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
