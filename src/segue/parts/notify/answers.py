"""Signs the buttons of a notification: each is a token for one run, one task, one answer, for some time.

A token is text and the signature of exactly that text, so that no other spelling of it is accepted. What a
token decided is known from the run itself; no token is stored anywhere.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from segue.domain.notification import ANSWERS, TO_QUESTION, AnswerAction, AnswerButton
from segue.parts.notify.options import NotifySettings

if TYPE_CHECKING:
    from segue.runtime.app import App

PATH = "/answers"
_MAX_CHARS = 1900
"""A button in Slack holds 2000 characters."""
_PURPOSE = b"segue answer\0"
"""Nothing else that is signed begins like this."""

EXPIRES = 3 * 86400.0
"""Seconds after which a button no longer works."""


class TaskAnswer(Struct, frozen=True, array_like=True):
    """One answer to one question: what to do about a task that ended and needs a person."""

    run: str
    task: str
    seq: int
    """The number of the event that is answered."""
    action: AnswerAction
    expires: int
    """In seconds since the epoch."""


class WrongToken(Exception):
    """A token was not made with this key."""


class ExpiredToken(Exception):
    """A token was made with this key, and is too old."""

    def __init__(self, answer: TaskAnswer) -> None:
        super().__init__("the token has expired")
        self.answer = answer


class AnswerSigner(Struct, frozen=True):
    """Makes and reads tokens."""

    key: str
    url: str
    """Where the bridge is, as people's devices reach it."""
    lifetime: float

    def buttons(
        self, run: str, task: str, seq: int, now: float, *, asks: bool = False
    ) -> tuple[AnswerButton, ...]:
        """Return the buttons for a task that needs a person; none if its name is too long for a token."""
        expires, actions = int(now + self.lifetime), TO_QUESTION if asks else ANSWERS
        made = [(action, self.sign(TaskAnswer(run, task, seq, action, expires))) for action in actions]
        if any(len(token) > _MAX_CHARS for _, token in made):
            return ()
        where = self.url.rstrip("/") + PATH
        return tuple(AnswerButton(action, token, where) for action, token in made)

    def sign(self, answer: TaskAnswer) -> str:
        """Return the token of an answer."""
        text = base64.urlsafe_b64encode(msgspec.json.encode(answer)).decode().rstrip("=")
        return f"{text}.{self._sign(text)}"

    def read(self, token: str, now: float) -> TaskAnswer:
        """Return the answer a token stands for; raises WrongToken or ExpiredToken."""
        text, _, signature = token.partition(".")
        given = signature.encode("utf-8", "surrogatepass")
        if len(token) > _MAX_CHARS or not hmac.compare_digest(given, self._sign(text).encode()):
            raise WrongToken
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        answer = msgspec.json.decode(data, type=TaskAnswer)
        if now >= answer.expires:
            raise ExpiredToken(answer)
        return answer

    def _sign(self, text: str) -> str:
        signed = _PURPOSE + text.encode("utf-8", "surrogatepass")
        return hmac.new(self.key.encode(), signed, hashlib.sha256).hexdigest()


def make_answer_signer(app: App) -> AnswerSigner | None:
    """Build what signs the buttons of notifications; None if nobody could press them."""
    settings = app.loaded.settings.part("notify", NotifySettings).answers
    if not settings.url:
        return None
    from segue.system.secrets import keep_secret

    given = os.environ.get(settings.key_env, "").strip()
    key = given or keep_secret(app.secret_dir / "answer-key", lambda: secrets.token_urlsafe(32))
    return AnswerSigner(key, settings.url, EXPIRES)
