"""Comments on GitHub that say how a task ended: one for each end, found again by its hidden mark."""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from segue.domain.task import Completion, TaskStatus
from segue.domain.text import plain_lines
from segue.system.http.rest import Rest

_REASON = 1500
MARK = "<!-- segue:"
"""What the hidden mark of every comment of Segue begins with."""


class Comment(Struct, frozen=True):
    """A comment, as far as Segue reads it."""

    id: int
    body: str | None = None


async def post_once(rest: Rest, listed: str, place: str, mark: str, text: str) -> None:
    """Post a comment, unless one with this mark is `listed`; then that one gets the text."""
    body = f"{MARK}{mark} -->\n{text}"
    same = [one for one in await rest.list(listed, Comment) if f"{MARK}{mark} -->" in (one.body or "")]
    if not same:
        await rest.do("POST", place, _body(body))
    elif same[0].body != body:
        await rest.do(
            "PATCH", f"{listed.rpartition('/issues/')[0]}/issues/comments/{same[0].id}", _body(body)
        )


def describe_end(completion: Completion, reason: str) -> str:
    """Say how a task ended; `reason` is why a person is needed, without secrets."""
    run = f"run `{completion.run}`"
    if completion.status is TaskStatus.SKIPPED:
        return f"A person decided to leave this out ({run})."
    if completion.status is TaskStatus.DONE:
        commit = f" Commit {completion.commit}" if completion.commit else ""
        branch = f" on branch `{completion.branch}`" if commit and completion.branch else ""
        return f"Segue has done this ({run}).{commit}{branch}{'.' if commit else ''}"
    words = plain_lines(reason, _REASON)
    # In a block of code nobody is mentioned and no issue referred to, whatever an agent says.
    fence = "`" * (max([2, *map(len, re.findall("`+", words))]) + 1)
    more = f"`segue logs {completion.run}` shows more; `segue resume {completion.run}` tries again."
    return f"Segue needs a person here ({run}):\n\n{fence}text\n{words}\n{fence}\n\n{more}"


def _body(text: str) -> dict[str, Any]:
    return {"body": text}
