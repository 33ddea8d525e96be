"""Proof cards as JUnit XML, which CI services show: a test case per task, and passed means proven."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from xml.etree import ElementTree as Xml

from segue.domain.run import Run
from segue.domain.text import plain
from segue.domain.verdict import Result
from segue.reports.card.card import ProofCard
from segue.reports.card.layout import lay_out
from segue.reports.card.text import render_text

_FAILED = ("needs_human", "blocked", "stopped")
_MOST_MESSAGE = 500
_MOST_TEXT = 60_000
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What an XML document must not contain, not even escaped."""


def render_junit(cards: Sequence[ProofCard], run: Run) -> str:
    """Render a test suite with a case per task.

    A task that is proven has passed. One that needs a person or is blocked has failed. What is open, skipped,
    or done without a proof counts as skipped, with the reason.
    """
    cases = [_make_case(card, run) for card in cards]
    counts = {
        "tests": len(cases),
        "failures": sum(case.find("failure") is not None for case in cases),
        "errors": 0,
        "skipped": sum(case.find("skipped") is not None for case in cases),
        "time": f"{sum(card.seconds or 0.0 for card in cards):.3f}",
    }
    numbers = {name: str(value) for name, value in counts.items()}
    started = datetime.fromtimestamp(run.created / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    suites = Xml.Element("testsuites", {"name": "Segue", **numbers})
    suite = Xml.SubElement(suites, "testsuite", {"name": f"Segue {run.id}", "timestamp": started, **numbers})
    suite.extend(cases)
    Xml.indent(suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{Xml.tostring(suites, encoding="unicode")}\n'


def _make_case(card: ProofCard, run: Run) -> Xml.Element:
    name = _legal(plain(f"{card.task}: {card.title}", _MOST_MESSAGE))
    case = Xml.Element(
        "testcase",
        {"classname": f"segue.{run.spec.kind}", "name": name, "time": f"{card.seconds or 0.0:.3f}"},
    )
    known = {"state": card.state, "level": card.level, "commit": card.commit, "agent": ", ".join(card.agents)}
    properties = Xml.SubElement(case, "properties")
    for key, value in known.items():
        if value:
            Xml.SubElement(properties, "property", {"name": key, "value": _legal(str(value))})
    text = _legal(render_text([lay_out(card)])[:_MOST_TEXT])
    result = _judge(card)
    if result is not None:
        kind, message = result
        element = Xml.SubElement(case, kind, {"message": _legal(plain(message, _MOST_MESSAGE))})
        element.text = text if kind == "failure" else None
    Xml.SubElement(case, "system-out").text = text
    return case


def _judge(card: ProofCard) -> tuple[str, str] | None:
    """Return how a case did not pass, and why; None: it passed."""
    if card.state in _FAILED:
        return "failure", " ".join(card.missing) or card.state.replace("_", " ")
    if card.state != "done":
        return "skipped", " ".join(card.missing) or card.state
    if card.conclusion.startswith(Result.PASS):
        return None
    return "skipped", f"done, but not proven: {card.conclusion or card.meaning}"


def _legal(text: str) -> str:
    return _ILLEGAL.sub("", text)
