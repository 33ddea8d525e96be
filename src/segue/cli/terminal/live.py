"""The live table: a row per task on a terminal, redrawn in place while the run works."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from segue.cli.terminal.output import one_line
from segue.cli.terminal.progress import Progress, Row
from segue.cli.terminal.table import STYLES
from segue.domain.event import Recorded
from segue.reports.formatting import format_duration, format_quantity

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.text import Text

_ROWS = 20
"""How many tasks are shown at once, if the terminal is high enough; the caption counts the rest."""
_FRAME = 9
"""Lines beside the rows: head, rule, captions, news, and one for the cursor."""
_GAP = 2

_CELLS: dict[str, Callable[[Row, float], str]] = {
    "task": lambda row, _: row.key,
    "title": lambda row, _: row.title,
    "state": lambda row, _: _state(row),
    "phase": lambda row, _: f"{row.phase} {row.attempt}" if row.attempt else row.phase,
    "time": lambda row, now: _elapsed(row.seconds(now)),
    "tokens": lambda row, _: _count(row.tokens) if row.tokens else "",
    "cost": lambda row, _: format_quantity(row.cost, "cost_usd") if row.cost else "",
    "last activity": lambda row, _: row.last,
}
_RIGHT = ("time", "tokens", "cost")
_LEAST = {"title": 12, "last activity": 18}
"""The columns whose text is cut, and what must be left of it."""
_DROPPED = ("tokens", "cost", "title", "phase", "last activity")
"""Which columns a narrow terminal loses first; the totals stay in the caption."""


@dataclass(slots=True)
class LiveTable:
    """Shows the run on stderr; goes away when it ends, so that the summary takes its place."""

    progress: Progress
    run: str
    color: str = "auto"
    _live: Any = None
    _widths: dict[str, int] = field(default_factory=dict)

    def __call__(self, event: Recorded) -> None:
        """Take the event into the table."""
        self.progress.take(event)

    def __enter__(self) -> LiveTable:
        from rich.console import Console
        from rich.live import Live

        console = Console(stderr=True, no_color=True if self.color == "never" else None)
        self._live = Live(self, console=console, refresh_per_second=5, transient=True)
        self._live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._live.stop()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """The table as it is now, for a terminal of this size."""
        yield from self._table(options.max_width, console.size.height)
        yield from self._captions(options.max_width)

    def _table(self, width: int, height: int) -> Iterator[Text]:
        from rich.text import Text

        now = time.time()
        shown = self._window(min(_ROWS, max(3, height - _FRAME)))
        widths = self._fit(shown, now, width)
        yield _line([(_aligned(name, name, size), "bold") for name, size in widths.items()])
        yield Text("─" * min(width, sum(widths.values()) + _GAP * (len(widths) - 1)), style="dim")
        for row in shown:
            yield _line([self._cell(row, name, size, now) for name, size in widths.items()])

    def _cell(self, row: Row, name: str, size: int, now: float) -> tuple[str, str]:
        styles = {"state": STYLES.get(row.state, ""), "last activity": "dim"}
        styles["task"] = "bold" if row is self.progress.current else ""
        return _aligned(name, one_line(_CELLS[name](row, now), size), size), styles.get(name, "")

    def _fit(self, rows: list[Row], now: float, width: int) -> dict[str, int]:
        """The columns that have room, with their widths. They only grow, so that the table stands still."""
        for name, cell in _CELLS.items():
            longest = max((len(cell(row, now)) for row in rows), default=0)
            self._widths[name] = max(self._widths.get(name, len(name)), min(longest, 40))
        names = [name for name in _CELLS if self._used(name)]
        for dropped in _DROPPED:
            if _needed(names, self._widths) <= width:
                break
            names = [name for name in names if name != dropped]
        return _shared(names, self._widths, width)

    def _used(self, name: str) -> bool:
        if name == "tokens":
            return bool(self.progress.tokens)
        return bool(self.progress.cost) if name == "cost" else True

    def _window(self, most: int) -> list[Row]:
        """The rows around the current task."""
        rows = list(self.progress.rows.values())
        current = next((i for i, row in enumerate(rows) if row is self.progress.current), 0)
        first = max(0, min(current - most // 2, len(rows) - most))
        return rows[first : first + most]

    def _captions(self, width: int) -> list[Text]:
        from rich.text import Text

        lines = [Text("")]
        for at, text in self.progress.news:
            stamp = time.strftime("%H:%M:%S", time.localtime(at))
            lines.append(Text(one_line(f"{stamp} {text}", width), style="dim"))
        lines.append(Text(one_line(f"run {self.run} · {self._states()} · Ctrl-C stops and saves", width)))
        lines.append(Text(one_line(self._used_so_far(), width)))
        return lines

    def _states(self) -> str:
        counts = Counter(
            _WORDS.get(row.state, row.state) for row in self.progress.rows.values() if not row.whole
        )
        return " · ".join(f"{count} {state}" for state, count in sorted(counts.items()))

    def _used_so_far(self) -> str:
        """Time, launches, tokens and money, and what is allowed of them."""
        seen, caps = self.progress, self.progress.budget
        used = [_elapsed(time.time() - seen.began), _of(seen.launches, caps.launches, "launch", "launches")]
        if seen.tokens or caps.tokens:
            used.append(_of(seen.tokens, caps.tokens, "token", "tokens"))
        if seen.cost or caps.cost_usd:
            allowed = f" of ${caps.cost_usd:,.2f} {_share(seen.cost, caps.cost_usd)}" if caps.cost_usd else ""
            used.append(format_quantity(seen.cost, "cost_usd") + allowed)
        return " · ".join(filter(None, [*used, seen.counts()]))


_WORDS = {"needs_human": "need a human"}


def _line(cells: list[tuple[str, str]]) -> Text:
    from rich.text import Text

    line = Text(no_wrap=True, overflow="crop")
    for text, style in cells:
        line.append(text, style).append(" " * _GAP)
    line.rstrip()
    return line


def _aligned(name: str, text: str, size: int) -> str:
    """The text in exactly the room of its column, also when its letters are two cells wide."""
    from rich.cells import cell_len, set_cell_size

    return " " * max(0, size - cell_len(text)) + text if name in _RIGHT else set_cell_size(text, size)


def _state(row: Row) -> str:
    if row.state == "parked" and row.wake:
        return f"until {time.strftime('%H:%M:%S', time.localtime(row.wake))}"
    return "needs human" if row.state == "needs_human" else row.state


def _elapsed(seconds: float | None) -> str:
    """Whole seconds: tenths would make the table restless."""
    if seconds is None:
        return ""
    return f"{seconds:.0f}s" if seconds < 60 else format_duration(seconds)


def _count(number: int) -> str:
    return f"{number:,}" if number < 10_000 else format_quantity(float(number), "")


def _of(used: int, cap: int | None, one: str, many: str) -> str:
    if cap is None:
        return f"{_count(used)} {one if used == 1 else many}"
    return f"{_count(used)} of {_count(cap)} {many} {_share(used, cap)}"


def _share(used: float, cap: float) -> str:
    return f"({100 * used / cap:.0f} %)"


def _needed(names: list[str], widths: dict[str, int]) -> int:
    return sum(min(widths[name], _LEAST.get(name, widths[name])) + _GAP for name in names) - _GAP


def _shared(names: list[str], widths: dict[str, int], width: int) -> dict[str, int]:
    """What is left over goes to the texts: the title first up to its length, the rest to the activity."""
    sizes = {name: min(widths[name], _LEAST.get(name, widths[name])) for name in names}
    left = width - _needed(names, widths)
    if "title" in sizes:
        room = left if "last activity" not in sizes else left // 2
        more = max(0, min(widths["title"] - sizes["title"], room))
        sizes["title"] += more
        left -= more
    if "last activity" in sizes:
        sizes["last activity"] += max(0, min(left, 60))
    return sizes
