"""Questions answered on the page of `segue serve`: one file each, for as long as the relay waits."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
import uuid
from pathlib import Path

import msgspec

from segue.domain.errors import UsageError
from segue.system.files import private_folder, write_atomic

_NAME = re.compile(r"[0-9a-f]{32}")
_POLL_SECONDS = 0.2


class PendingQuestion(msgspec.Struct, frozen=True):
    """A question that waits for an answer."""

    id: str
    text: str
    until: float
    """The deadline; silence means no."""


class Questions:
    """The questions of one relay, shared by the relay and the page."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "questions"

    def ask(self, text: str, timeout: float) -> PendingQuestion:
        """Store a question."""
        question = PendingQuestion(uuid.uuid4().hex, text, time.time() + timeout)
        private_folder(self._folder)
        write_atomic(self._folder / f"{question.id}.json", msgspec.json.encode(question))
        return question

    def open(self) -> list[PendingQuestion]:
        """Return the questions that can still be answered, most urgent first."""
        found = [self._read(path) for path in self._folder.glob("*.json")]
        open_ones = [q for q in found if q and q.until > time.time() and self.read_answer(q) is None]
        return sorted(open_ones, key=lambda question: question.until)

    def answer(self, name: str, yes: bool) -> PendingQuestion:
        """Answer a question and return it; raise UsageError if it is no longer open."""
        for question in self.open():
            if question.id == name:
                write_atomic(self._folder / f"{name}.answer", b"yes" if yes else b"no")
                return question
        raise UsageError("This question is no longer open.", kept="Nothing was changed.")

    def read_answer(self, question: PendingQuestion) -> bool | None:
        """Return the answer; None if there is none yet."""
        try:
            return (self._folder / f"{question.id}.answer").read_bytes() == b"yes"
        except OSError:
            return None

    def forget(self, question: PendingQuestion) -> None:
        """Delete the question and its answer."""
        for ending in ("json", "answer"):
            (self._folder / f"{question.id}.{ending}").unlink(missing_ok=True)

    def _read(self, path: Path) -> PendingQuestion | None:
        with contextlib.suppress(OSError, msgspec.DecodeError):
            question = msgspec.json.decode(path.read_bytes(), type=PendingQuestion)
            return question if _NAME.fullmatch(question.id) else None
        return None


class PagePrompt:
    """Asks on the page of `segue serve`; silence means no."""

    def __init__(self, questions: Questions, timeout: float) -> None:
        self._questions = questions
        self._timeout = timeout

    async def __call__(self, text: str) -> bool:
        """Return whether the user answers yes in time."""
        question = self._questions.ask(text, self._timeout)
        try:
            async with asyncio.timeout(self._timeout):
                # The answer is a file that another process writes.
                while True:
                    answer = self._questions.read_answer(question)
                    if answer is not None:
                        return answer
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            return False
        finally:
            self._questions.forget(question)
