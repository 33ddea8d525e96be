"""Questions answered on the page of `segue serve`: one file each, for as long as the relay waits.

Relay and page are two processes of one user. Question and answer are signed with a key that only they can
read, and both name the digest of the whole command.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import secrets
import time
import uuid
from pathlib import Path

import msgspec

from segue.domain.errors import UsageError
from segue.parts.relay.confirm import Proposal
from segue.system.secrets import keep_secret, read_secret, write_secret

_NAME = re.compile(r"[0-9a-f]{32}")
_POLL_SECONDS = 0.2


class PendingQuestion(msgspec.Struct, frozen=True):
    """A question that waits for an answer."""

    id: str
    proposal: Proposal
    until: float
    """The deadline; silence means no."""
    signature: str = ""

    @property
    def signed_text(self) -> str:
        """What the relay signs."""
        return f"question {self.id} {self.proposal.digest} {self.until!r}"


class SignedAnswer(msgspec.Struct, frozen=True):
    """What the user answered to which proposal."""

    yes: bool
    digest: str
    signature: str


class Questions:
    """The questions of one relay, shared by the relay and the page."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "questions"

    def ask(self, proposal: Proposal, timeout: float) -> PendingQuestion:
        """Store a question."""
        question = PendingQuestion(uuid.uuid4().hex, proposal, time.time() + timeout)
        question = msgspec.structs.replace(question, signature=self._sign(question.signed_text))
        write_secret(self._folder / f"{question.id}.json", msgspec.json.encode(question))
        return question

    def open(self) -> list[PendingQuestion]:
        """Return the questions that can still be answered, most urgent first."""
        found = [self._read(path) for path in self._folder.glob("*.json")]
        open_ones = [q for q in found if q and q.until > time.time() and not self._answer(q).exists()]
        return sorted(open_ones, key=lambda question: question.until)

    def answer(self, name: str, digest: str, yes: bool) -> PendingQuestion:
        """Answer a question as it was shown and return it; raise UsageError if that is not open."""
        for question in self.open():
            if question.id == name:
                if not hmac.compare_digest(question.proposal.digest.encode(), digest.encode()):
                    raise UsageError("This is not the action that was shown.", kept="Nothing was allowed.")
                signature = self._sign(_answer_text(name, digest, yes))
                answer = SignedAnswer(yes, digest, signature)
                write_secret(self._answer(question), msgspec.json.encode(answer))
                return question
        raise UsageError("This question is no longer open.", kept="Nothing was changed.")

    def read_answer(self, question: PendingQuestion) -> bool | None:
        """Return the answer; None if there is none yet. One that is unsigned or of another action is a no."""
        if (data := read_secret(self._answer(question))) is None:
            return None
        try:
            answer = msgspec.json.decode(data, type=SignedAnswer)
        except msgspec.DecodeError:
            return False
        text = _answer_text(question.id, question.proposal.digest, answer.yes)
        right = hmac.compare_digest(answer.signature.encode(), self._sign(text).encode())
        return right and answer.digest == question.proposal.digest and answer.yes

    def forget(self, question: PendingQuestion) -> None:
        """Delete the question and its answer."""
        (self._folder / f"{question.id}.json").unlink(missing_ok=True)
        self._answer(question).unlink(missing_ok=True)

    def _answer(self, question: PendingQuestion) -> Path:
        return self._folder / f"{question.id}.answer"

    def _read(self, path: Path) -> PendingQuestion | None:
        """Return a question of the relay; None for anything else."""
        try:
            question = msgspec.json.decode(read_secret(path) or b"", type=PendingQuestion)
        except msgspec.DecodeError:
            return None
        signed = hmac.compare_digest(question.signature.encode(), self._sign(question.signed_text).encode())
        return question if signed and _NAME.fullmatch(question.id) and path.stem == question.id else None

    def _sign(self, text: str) -> str:
        key = keep_secret(self._folder.parent / "approval-key", lambda: secrets.token_hex(32))
        return hmac.new(key.encode(), text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def _answer_text(name: str, digest: str, yes: bool) -> str:
    return f"answer {name} {digest} {'yes' if yes else 'no'}"


class PagePrompt:
    """Asks on the page of `segue serve`; silence means no."""

    longest = 32_000

    def __init__(self, questions: Questions, timeout: float) -> None:
        self._questions = questions
        self._timeout = timeout

    async def __call__(self, proposal: Proposal) -> str | None:
        """Return the digest of the proposal if the user answers yes in time."""
        question = self._questions.ask(proposal, self._timeout)
        try:
            async with asyncio.timeout(self._timeout):
                # The answer is a file that another process writes.
                while True:
                    answer = self._questions.read_answer(question)
                    if answer is not None:
                        return proposal.digest if answer else None
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            return None
        finally:
            self._questions.forget(question)
