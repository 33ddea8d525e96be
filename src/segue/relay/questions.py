"""Questions that are answered on the page of `segue serve`: a file each, for as long as the relay waits."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

from segue.domain.errors import UsageError
from segue.system.files import private_folder, write_atomic

_NAME = re.compile(r"[0-9a-f]{32}")
_PAUSE = 0.2
"""Seconds between two looks for the answer of a person."""


@dataclass(frozen=True, slots=True)
class Question:
    """One question that waits for an answer."""

    id: str
    text: str
    until: float
    """Silence until then means no."""


class Questions:
    """The questions of one relay, seen by the relay and by the page."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "questions"

    def ask(self, text: str, timeout: float) -> Question:
        """Put a question down."""
        question = Question(uuid.uuid4().hex, text, time.time() + timeout)
        private_folder(self._folder)
        write_atomic(self._folder / f"{question.id}.json", json.dumps(asdict(question)).encode())
        return question

    def open(self) -> list[Question]:
        """The questions that can still be answered, the most urgent first."""
        found = [self._read(path) for path in self._folder.glob("*.json")]
        waiting = [one for one in found if one and one.until > time.time() and self.answered(one) is None]
        return sorted(waiting, key=lambda question: question.until)

    def answer(self, name: str, yes: bool) -> Question:
        """Answer a question; raises UsageError when it is not open any more."""
        for question in self.open():
            if question.id == name:
                write_atomic(self._folder / f"{name}.answer", b"yes" if yes else b"no")
                return question
        raise UsageError("This question is not open any more.", kept="Nothing was changed.")

    def answered(self, question: Question) -> bool | None:
        """What the answer is; None when there is none yet."""
        try:
            return (self._folder / f"{question.id}.answer").read_bytes() == b"yes"
        except OSError:
            return None

    def forget(self, question: Question) -> None:
        """Take the question away, with its answer."""
        for ending in ("json", "answer"):
            (self._folder / f"{question.id}.{ending}").unlink(missing_ok=True)

    def _read(self, path: Path) -> Question | None:
        with contextlib.suppress(OSError, ValueError, TypeError):
            question = Question(**json.loads(path.read_bytes()))
            return question if _NAME.fullmatch(question.id) else None
        return None


class Page:
    """Asks on the page; silence means no."""

    def __init__(self, questions: Questions, timeout: float) -> None:
        self._questions = questions
        self._timeout = timeout

    async def __call__(self, text: str) -> bool:
        """Whether the user answers yes in time."""
        question = self._questions.ask(text, self._timeout)
        try:
            async with asyncio.timeout(self._timeout):
                return await self._answer(question)
        except TimeoutError:
            return False
        finally:
            self._questions.forget(question)

    async def _answer(self, question: Question) -> bool:
        """The answer comes from another process, as a file."""
        while True:
            said = self._questions.answered(question)
            if said is not None:
                return said
            await asyncio.sleep(_PAUSE)
