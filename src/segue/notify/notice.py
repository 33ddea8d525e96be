"""A notice: one thing a person should know, bounded and harmless wherever it is shown."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, get_args
from urllib.parse import urlsplit

from segue.domain.plain import plain, plain_lines
from segue.system.redact import Redactor

Kind = Literal["reminder", "needs_human", "run_finished", "parked", "test"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_TITLE_CHARS = 120
_TEXT_CHARS = 2000
_LINK_CHARS = 1000


@dataclass(frozen=True, slots=True)
class Notice:
    """What a person is told. Title and text may come from an agent."""

    kind: Kind
    title: str
    text: str
    link: str = ""


Notifier = Callable[[Notice], Awaitable[None]]
"""Tells a person; raises NotTold, or anything else when it could not."""


class NotTold(Exception):
    """A notifier could not tell anybody; the message is a sentence for people, without secrets."""


def made_safe(notice: Notice, redactor: Redactor) -> Notice:
    """The notice without secrets, control characters and anything that is too long; a web link or none."""
    return Notice(
        notice.kind,
        plain(redactor.text(notice.title), _TITLE_CHARS) or notice.kind,
        plain_lines(redactor.text(notice.text), _TEXT_CHARS),
        _web_link(redactor.text(notice.link)),
    )


def _web_link(link: str) -> str:
    """A link is clicked on: only to the web, and only if it is whole."""
    if len(link) > _LINK_CHARS or plain(link, _LINK_CHARS) != link or " " in link:
        return ""
    try:
        parts = urlsplit(link)
    except ValueError:
        return ""
    return link if parts.scheme in ("http", "https") and parts.netloc else ""
