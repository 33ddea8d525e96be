"""Say in plain words why a local agent failed: its vendor's fields first, then the sentences it prints."""

from __future__ import annotations

import re
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from segue.agents.local.launch import ProcessEnd
from segue.agents.local.lines import LineReader
from segue.agents.why_failed import explain_text, load_sentences, plain
from segue.domain.job import Mode
from segue.domain.outcome import Failure, FailureKind

MESSAGE_CHARS = 400
_STDERR_CHARS = 2000


class FailureTable(Struct, frozen=True, dict=True):
    """What one vendor's agent prints when it fails."""

    title: str
    login: str = ""
    """The sentence that says how to log in."""
    vendor: str = ""
    """The name of its tables in `sentences.toml`."""

    @cached_property
    def _sentences(self) -> dict[str, list[tuple[FailureKind, str, str]]]:
        """By the place where it is printed: kinds, regular expressions, and what they mean."""
        return {
            place: [
                (FailureKind(kind), pattern, meaning)
                for kind, meanings in by_kind.items()
                for pattern, meaning in meanings.items()
            ]
            for place, by_kind in load_sentences().get(self.vendor, {}).items()
        }

    def find_sentence(self, text: str, place: str = "at_start") -> tuple[FailureKind, str, str] | None:
        """Return the kind, the meaning and the line of the first known sentence in a text."""
        for kind, pattern, meaning in self._sentences.get(place, ()):
            if line := re.search(pattern, plain(text), re.MULTILINE):
                return kind, meaning, line[0].strip()
        return None

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
        failure = explain_text(said, now)
        is_limit = failure is not None and failure.kind is FailureKind.USAGE_LIMIT
        if not is_limit and (sentence := self.find_sentence(said, "in_result")):
            return self.fail(sentence[0], ": ".join(filter(None, (sentence[1], said))), err_tail)
        if failure is not None:
            return self.fail(failure.kind, failure.message, err_tail, failure.until)
        return self.fail(FailureKind.UNKNOWN, said, err_tail)

    def judge_success(self, mode: Mode, text: str, denied: int, worked: bool, setting: str) -> Failure | None:
        """Return why a success is none: no tool was allowed, or there is no text where one was asked for."""
        if mode is Mode.EDIT:
            what = f"{self.title} was not allowed any of the {denied} tools it needed; see {setting}"
            return Failure(FailureKind.REFUSED, what) if denied and not worked else None
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
        if failure.kind is FailureKind.AUTH:
            return self.fail(failure.kind, failure.message, failure.stderr_tail)
        if failure.kind in (FailureKind.CRASH, FailureKind.NO_RESULT):
            for text in (failure.stderr_tail, lines.plain_text):
                if sentence := self.find_sentence(text):
                    kind, meaning, line = sentence
                    return replace(failure, kind=kind, message=f"{meaning}: {line}"[:MESSAGE_CHARS])
        return failure
