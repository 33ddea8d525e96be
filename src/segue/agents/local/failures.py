"""Say in plain words why a local agent failed: the vendor brings a table of the sentences it prints."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from segue.agents.classify import classify, plain
from segue.agents.local.launch import ProcessEnd
from segue.agents.local.lines import LineReader
from segue.domain.job import Mode
from segue.domain.outcome import Failure, FailureKind

MESSAGE_CHARS = 400
_STDERR_CHARS = 2000

Sentences = Mapping[FailureKind, Mapping[str, str]]
"""By the kind of failure: regular expressions for lines, each with what it means in words for people."""


class FailureTable(Struct, frozen=True):
    """What one vendor's agent prints when it fails."""

    title: str
    login: str
    """The sentence that says how to log in."""
    at_start: Sentences = field(default_factory=dict)
    """Printed instead of a result."""
    in_result: Sentences = field(default_factory=dict)
    """Said by a result that is a failure."""

    def fail(
        self, kind: FailureKind, message: str, err_tail: str = "", until: float | None = None
    ) -> Failure:
        """Return a failure; if it is about authentication, it says how to log in."""
        message = message.strip()[:MESSAGE_CHARS] or f"{self.title} reports a failure, but no reason"
        if kind is FailureKind.AUTH and self.login:
            message = f"{message.rstrip('. ')}. {self.login}"
        return Failure(kind, message, plain(err_tail).strip()[-_STDERR_CHARS:], until)

    def read_words(self, said: str, err_tail: str, now: float) -> Failure:
        """Return what a result means that is a failure, judging by its words alone."""
        known = classify(1, None, None, "", said, "", now)
        if known is not None and known.kind is FailureKind.USAGE_LIMIT:
            return self.fail(known.kind, known.message, err_tail, known.until)
        if found := next(_find(self.in_result, said), None):
            return self.fail(found[0], ": ".join(filter(None, (found[1], said))), err_tail)
        if known is not None and known.kind is not FailureKind.CRASH:
            return self.fail(known.kind, known.message, err_tail, known.until)
        return self.fail(FailureKind.UNKNOWN, said, err_tail)

    def judge_success(self, mode: Mode, text: str, denied: int, worked: bool, setting: str) -> Failure | None:
        """Return why a success is none: no tool was allowed, or there is no text where one was asked for."""
        if mode is Mode.EDIT:
            if not denied or worked:
                return None
            what = f"{self.title} was not allowed any of the {denied} tools it needed; see {setting}"
            return Failure(FailureKind.REFUSED, what)
        if text.strip():
            return None
        what = "plan" if mode is Mode.PLAN else "answer"
        why = f", after it was denied {denied} uses of tools" if denied else ""
        return Failure(FailureKind.NO_RESULT, f"{self.title} ended well but gave no {what}{why}")

    def judge_end(self, end: ProcessEnd, lines: LineReader, now: float) -> Failure:
        """Return why a program failed that gave no result, or none that counts."""
        failure = end.failure(now, lines.plain_text)
        if failure is not None and end.exit.reason is not None:
            return failure
        if failure is None and lines.lost:
            return lines.too_long()
        if failure is None and lines.is_torn:
            return Failure(FailureKind.TRUNCATED, f"{self.title}'s output stops in the middle of a line")
        if failure is None:
            failure = self.fail(FailureKind.NO_RESULT, f"{self.title} ended without a result", end.err_tail)
        return self._explain(failure, lines.plain_text)

    def _explain(self, failure: Failure, out_plain: str) -> Failure:
        """Return the failure with the reason that the program printed, if it is a known one."""
        if failure.kind is FailureKind.AUTH:
            return self.fail(failure.kind, failure.message, failure.stderr_tail)
        if failure.kind not in (FailureKind.CRASH, FailureKind.NO_RESULT):
            return failure
        for text in (failure.stderr_tail, out_plain):
            if found := self.find_sentence(text):
                return replace(failure, kind=found[0], message=f"{found[1]}: {found[2]}"[:MESSAGE_CHARS])
        return failure

    def find_sentence(self, text: str) -> tuple[FailureKind, str, str] | None:
        """Return the kind, the meaning and the line of the first known sentence in a text."""
        return next(_find(self.at_start, plain(text)), None)


def _find(sentences: Sentences, text: str) -> Iterator[tuple[FailureKind, str, str]]:
    for kind, meanings in sentences.items():
        for pattern, meaning in meanings.items():
            if found := re.search(pattern, text, re.MULTILINE):
                yield kind, meaning, found[0].strip()


def load_sentences(beside: Path) -> dict[str, Sentences]:
    """Return the tables of `failures.toml` in the folder of a module, as a FailureTable takes them."""
    tables = tomllib.loads(beside.with_name("failures.toml").read_text("utf-8"))
    return {
        name: {FailureKind(kind): meanings for kind, meanings in by_kind.items()}
        for name, by_kind in tables.items()
    }
