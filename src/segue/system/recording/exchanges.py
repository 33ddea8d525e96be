"""A recorded launch: what an agent asked its model, and what it was answered. No I/O."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec import Struct, field

from segue.domain.job import Mode

Change = Callable[[str], str]


class ModelExchange(Struct, frozen=True, omit_defaults=True):
    """One request of an agent, and the response."""

    method: str
    path: str
    """Below the vendor's address, with the query."""
    request: Any = None
    """The body, decoded where it is JSON."""
    status: int = 0
    """0: there was no response."""
    headers: dict[str, str] = field(default_factory=dict)
    """The few that matter to the agent."""
    body: str = ""
    whole: bool = True
    """Whether the response came to its end."""


class RecordedLaunch(Struct, frozen=True, omit_defaults=True):
    """The first line of a recording: what was launched, and where."""

    agent: str
    version: str
    """Of the agent's program."""
    token: str
    prompt: str
    workspace: str
    folder: str
    """The folder of the run, which appears in what the agent says about itself."""
    mode: Mode = Mode.EDIT
    model: str | None = None
    session: str | None = None
    """The conversation that it continued."""
    web: bool = False
    head: str = ""
    """The commit it began with; empty: it did not work in a repository."""
    branch: str = ""
    before: str = ""
    """The git tree it began with, with what was not committed."""
    after: str = ""
    """The git tree it left."""
    ended: str | None = None
    """The conversation it had, as the agent names it."""
    left_out: int = 0
    """Requests that were forwarded and not recorded, because the recording was full."""


class Recording(Struct, frozen=True):
    """A launch with its exchanges, in the order in which they began."""

    launch: RecordedLaunch
    exchanges: tuple[ModelExchange, ...] = ()


def change_data(value: Any, change: Change) -> Any:
    """Return JSON-like data with every text changed, keys too."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): change_data(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [change_data(item, change) for item in value]
    return value


def change_body(body: str, change: Change) -> str:
    """Return a response with its texts changed: a document, or a stream whose pieces are read as one text.

    What is changed may go across pieces. Then the first of them has all of the text, the others nothing.
    """
    document = _parse(body)
    if document is not None:
        return json.dumps(change_data(document, change), ensure_ascii=False)
    lines = body.split("\n")
    events = [_parse(line.removeprefix("data:")) if line.startswith("data:") else None for line in lines]
    if not any(isinstance(event, dict) for event in events):
        return change(body)
    for pieces in _group(events).values():
        said = "".join(holder[key] for holder, key in pieces)
        changed = change(said)
        if changed != said:
            for number, (holder, key) in enumerate(pieces):
                holder[key] = "" if number else changed
    return "\n".join(
        line if event is None else f"data: {json.dumps(change_data(event, change), ensure_ascii=False)}"
        for line, event in zip(lines, events, strict=True)
    )


def _parse(text: str) -> Any:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict | list) else None


_Pieces = list[tuple[Any, Any]]


def _group(events: list[Any]) -> dict[tuple[Any, ...], _Pieces]:
    """Return where the pieces of every text of a stream are: in `delta`, as all vendors call it."""
    found: dict[tuple[Any, ...], _Pieces] = {}
    for event in events:
        if not isinstance(event, dict):
            continue
        name = (event.get("type"), event.get("index"), event.get("item_id"), event.get("content_index"))
        for path, holder, key in _texts(event, ()):
            if "delta" in path:
                found.setdefault((name, path), []).append((holder, key))
    return found


def _texts(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any, Any]]:
    """Yield every text inside of a value: where it is, and what contains it."""
    inside: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        inside = value.items()
    elif isinstance(value, list):
        inside = enumerate(value)
    for key, item in inside:
        if isinstance(item, str):
            yield (*path, key), value, key
        else:
            yield from _texts(item, (*path, key))
