"""What a proof card says, in order: facts and sections that every rendering shows."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from segue.domain.amounts import format_count, format_duration, format_quantity, list_some
from segue.domain.proof import ChangedTest, CheckState, Seal, Tampering
from segue.domain.text import clean
from segue.domain.verdict import Finding
from segue.reports.card.card import CheckCard, ContestedCard, CriterionCard, ProofCard

_LISTED = 10
"""Tests, files or sentences of one list; the JSON has all."""
_SIGNS = {
    CheckState.PASSED: "✓",
    CheckState.NOTHING: "·",
    CheckState.CONTESTED: "?",
}


class CardItem(Struct, frozen=True):
    """One line of a section, with what belongs to it."""

    sign: str
    text: str
    notes: tuple[str, ...] = ()
    quote: str = ""
    """Words of the evidence, with their lines."""


class CardSection(Struct, frozen=True):
    """Items under a heading."""

    title: str
    items: tuple[CardItem, ...]


class CardLayout(Struct, frozen=True):
    """A card as it is shown."""

    title: str
    conclusion: str
    proven: bool
    summary: str
    """What is shown and what is not, in one sentence."""
    facts: tuple[tuple[str, str], ...]
    sections: tuple[CardSection, ...]


def lay_out(card: ProofCard) -> CardLayout:
    """Arrange a card for people."""
    sections = (
        CardSection("Missing", tuple(CardItem("✗", text) for text in card.missing)),
        CardSection("Not stronger because", tuple(CardItem("-", text) for text in card.reasons[:_LISTED])),
        CardSection("Criteria", tuple(map(_show_criterion, card.criteria))),
        CardSection("Checks", tuple(map(_show_check, card.checks))),
        CardSection("Tampering", tuple(map(_show_tampering, card.tampering))),
        CardSection("Open review findings", tuple(_show_findings(card))),
        CardSection("Supporting evidence", tuple(CardItem("-", text) for text in _support(card))),
    )
    proven = card.level is not None and card.level.proven
    shown = card.conclusion or card.state.replace("_", " ")
    filled = tuple(section for section in sections if section.items)
    title = f"Task {card.task}: {card.title}" if card.task else card.title
    return CardLayout(title, shown, proven, card.summary, tuple(_list_facts(card)), filled)


def quote_lines(quote: str, most: int) -> list[str]:
    """Return the lines of a quote with their indentation, safe to show, of at most this many characters."""
    cut = clean(quote[:most]).expandtabs(4).strip("\n") + ("…" if len(quote) > most else "")
    return [line.rstrip() for line in cut.splitlines()]


def _list_facts(card: ProofCard) -> Iterator[tuple[str, str]]:
    """Yield what is known about the task in short: kind, level, who decided, who worked, at what cost."""
    if card.kind is not None:
        yield "kind", card.kind
    if card.level is not None:
        yield "level", f"{card.proof}: {card.meaning}"
    if card.marks:
        yield "marks", ", ".join(card.marks)
    if card.state == "done":
        yield "decided by", " and ".join(card.decided_by) or "nobody"
    else:
        yield "state", card.state.replace("_", " ")
    named = {
        "agent": ", ".join(card.agents),
        "cloud agent": " ".join(filter(None, (card.agent_id, card.url))),
        "sandbox": card.isolation,
        "used": ", ".join(_list_usage(card)) or "nothing",
        "over budget": card.over_budget,
        "commit": card.commit,
        "branch": card.branch,
    }
    yield from ((name, fact) for name, fact in named.items() if fact)
    if card.tree:
        yield "checked tree", card.tree + (f", compared with commit {card.base}" if card.base else "")


def _list_usage(card: ProofCard) -> Iterator[str]:
    if card.attempts:
        yield format_count(card.attempts, "attempt")
    if card.seconds is not None:
        yield format_duration(card.seconds)
    if card.tokens:
        yield f"{card.tokens:,} tokens"
    if card.cost_usd is not None:
        yield format_quantity(card.cost_usd, "cost_usd")


def _show_criterion(one: CriterionCard) -> CardItem:
    text = f"{one.key}: {one.text}" if one.text else one.key
    return CardItem("✓" if one.met else "✗", text, quote=one.quote)


def _show_check(check: CheckCard) -> CardItem:
    known = [str(check.state)]
    if check.runner:
        known.append(f"{check.runner} reports {format_count(check.passed, 'test')} passed")
    elif check.exit_code is not None:
        known.append(f"exit code {check.exit_code}")
    # A weakness that begins so says more about it.
    told = any(text.startswith(check.environment) for text in check.weaknesses)
    sealed = [_describe_seal(check.seal), "" if told else check.environment, *check.weaknesses]
    notes = filter(None, [check.reason, *_describe_tests(check), *sealed])
    contested = map(_describe_contested, check.contested)
    sign = _SIGNS.get(check.state, "✗")
    name = f"scenario {check.command}" if check.scenario else check.command
    name += f" (proof of task {check.of}, run again)" if check.of else ""
    return CardItem(sign, f"{name}: {', '.join(known)}", (*notes, *contested))


def _describe_seal(seal: Seal) -> str:
    return f"{seal}: out of the agent's reach" if seal is Seal.SEALED else str(seal)


def _describe_tests(check: CheckCard) -> Iterator[str]:
    """Yield what the tests show, with the names of those that matter."""
    named = (
        ("proved by", check.proved),
        ("repaired", tuple(test for test in check.repaired if test not in check.proved)),
        ("no longer pass", check.broken),
        ("fail", tuple(test for test in check.failing if test not in (*check.broken, *check.known))),
        ("failed before too", check.known),
        ("pass without the change", check.idle),
        ("no longer show what they showed", check.lost),
        ("flaky", check.flaky),
        ("old tests changed", tuple(map(_describe_changed, check.changed_tests))),
        ("used by the product and by the checks", check.both_sides),
        ("wrong versions that no test notices", check.survivors),
        ("control files changed", check.changed),
    )
    for words, names in named:
        if names:
            yield f"{words}: {list_some(names, _LISTED)}"
    if check.noticed is not None:
        yield "sabotage of the change was " + ("noticed" if check.noticed else "not noticed")


def _describe_changed(one: ChangedTest) -> str:
    place = f"{one.path}:{one.line}" if one.line else one.path
    return f"{place} ({one.how}{': ' if one.why else ''}{one.why})"


def _describe_contested(one: ContestedCard) -> str:
    tests = f" ({list_some(one.tests, _LISTED)})" if one.tests else ""
    if not one.decided_by:
        return f"contested: {one.path}{tests}; nobody has decided yet"
    asked = "the task asked for it" if one.asked_for else "the task did not ask for it"
    return f"contested: {one.path}{tests}; {one.decided_by} decided: {asked}"


def _show_tampering(found: Tampering) -> CardItem:
    where = f" ({found.path})" if found.path else ""
    return CardItem("!", f"{found.subject}{where}: {found.text}")


def _show_findings(card: ProofCard) -> Iterator[CardItem]:
    for found in card.findings[:_LISTED]:
        yield CardItem("-", f"{found.severity} {_locate(found)} {found.rule}: {found.message}")
    more = card.open_findings - min(len(card.findings), _LISTED)
    if more > 0:
        yield CardItem("-", f"{format_count(more, 'finding')}{' more' if card.findings else ''}")


def _locate(found: Finding) -> str:
    return found.file if found.line is None else f"{found.file}:{found.line}"


def _support(card: ProofCard) -> Iterator[str]:
    if card.independent is not None:
        tests, by = card.independent, f" by {card.independent.by}" if card.independent.by else ""
        if by and tests.same_vendor:
            by += ", of the same vendor as the worker, in another session"
        shown = f": {list_some(tests.proved, _LISTED)}" if tests.proved else ""
        counted = f"{len(tests.proved)} prove the task, {len(card.dropped)} dropped"
        yield f"Independent tests{by}: {counted}{shown}"
    if card.mutants is not None:
        made, noticed = card.mutants
        yield f"Mutants of the changed lines: the tests noticed {noticed} of {made}."
    if card.held is not None:
        tried, hold = card.held
        yield f"Proofs of earlier tasks, run again: {hold} of {tried} still hold."
