"""Proof cards: what they say, that they make nothing up, and that hostile text stays text."""

from __future__ import annotations

import json
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.domain.proof import CheckState, IndependentTests, Level, Seal, Tampering
from segue.domain.task import TaskKind
from segue.reports.card.build import build_cards
from segue.reports.card.card import CheckCard, ContestedCard, CriterionCard, ProofCard
from segue.reports.card.layout import lay_out
from segue.reports.card.markdown import render_markdown
from segue.reports.card.text import render_text
from segue.store import connect
from tests.reports.proofs import TASKS, write_proofs


def read_cards(address: str, run_id: str) -> dict[str, ProofCard]:
    with connect(address, read_only=True) as store:
        run = store.run(run_id)
        assert run is not None
        return {card.task: card for card in build_cards(store, run, TASKS)}


@pytest.fixture
def cards(database: str) -> dict[str, ProofCard]:
    return read_cards(database, write_proofs(database))


def test_the_card_of_a_proven_task(cards: dict[str, ProofCard]) -> None:
    card = cards["T001"]
    assert (card.level, card.proof, card.state) == (Level.TESTED, "tested", "done")
    assert card.conclusion == "PARTIAL (tested)", "a finding is open"
    assert card.decided_by == ("checks", "judge claude opus")
    [criterion] = card.criteria
    assert criterion == CriterionCard(
        "US1/AC1", "A user with a password gets in.", True, "def log_in(password):\n    return True"
    )
    [check] = card.checks
    assert (check.state, check.passed, check.seal, check.noticed) == (CheckState.PASSED, 12, Seal.WEAK, True)
    [contested] = check.contested
    assert contested == ContestedCard(
        "tests/test_old.py", ("tests/test_old.py::test_one",), "claude opus", True
    ), "the judge decided"
    assert [found.subject for found in card.tampering] == ["ticks"]
    assert [(found.file, found.message) for found in card.findings] == [("a.py", "Bad.")]
    assert card.independent is not None
    assert (card.independent.by, card.independent.proved) == ("codex", ("t.py::test_in",))
    assert (card.mutants, card.held, card.commit) == ((8, 7), (3, 3), "c" * 40)
    assert (card.agents, card.attempts, card.tokens, card.cost_usd) == (("claude opus",), 1, 1234, 0.5)
    assert card.missing == ()
    assert card.marks == ("by tests that were there before", "held", "weakly sealed")
    assert card.summary == (
        "Tested by 1 test that was there before; nothing that worked is broken; 3 earlier proofs still hold."
    )
    assert card.not_shown == (
        "No tests were written by somebody else.",
        "no tests by somebody who never saw the change",
    )


def test_the_card_of_a_failed_task_says_what_is_missing(cards: dict[str, ProofCard]) -> None:
    card = cards["T002"]
    assert (card.state, card.level, card.proof) == ("needs_human", None, None)
    assert card.missing == (
        "checks failed: make lint",
        "Criterion US1/AC2 is not met: A user can log out.",
        "Check make lint: failed: Line 3 is too long.",
    )
    assert [check.command for check in card.checks] == ["make lint"], "only the last round counts"


def test_a_person_decided(cards: dict[str, ProofCard]) -> None:
    card = cards["T003"]
    assert (card.level, card.proof, card.decided_by) == (Level.CHANGED, "changed", ("person",))
    assert (card.marks, card.conclusion) == (("accepted by person",), "accepted by person")


def test_every_rendering_says_the_same(cards: dict[str, ProofCard]) -> None:
    layouts = [lay_out(card) for card in cards.values()]
    written = re.sub(r"\\(.)", r"\1", render_markdown(layouts)).replace("<!-- -->", "")
    plain = render_text(layouts)
    for text in (plain, written):
        flat = " ".join(text.split())
        for words in (
            "Task T001: Log in",
            "PARTIAL (tested)",
            "7 of 8",
            "3 of 3 still hold",
            "weakly sealed",
        ):
            assert words in flat
        for words in (
            "accepted by person",
            "Criterion US1/AC2 is not met",
            "def log_in",
            "It has not begun.",
        ):
            assert words in flat
    assert max(map(len, plain.splitlines())) <= 80


ANY = st.text() | st.sampled_from(
    [
        "<script>alert(1)</script>",
        "\x1b[31mred\x1b[0m\x07\u202e",
        "@all Fixes #12 and GH-3, see https://evil.example/x www.evil.example",
        "```\n@all\n```",
        "[click](javascript:alert(1)) ![x](https://evil.example/p.png)",
        "x" * 3000,
        "a\n\n# Heading\n| a | b |\n- item",
    ]
)
SOME = st.lists(ANY, max_size=3).map(tuple)
CHECKS = st.builds(
    CheckCard,
    command=ANY,
    state=st.sampled_from(CheckState),
    exit_code=st.none() | st.integers(0, 255),
    reason=ANY,
    runner=ANY,
    passed=st.integers(0, 9999),
    failing=SOME,
    broken=SOME,
    proved=SOME,
    idle=SOME,
    contested=st.lists(st.builds(ContestedCard, ANY, SOME, ANY, st.none() | st.booleans()), max_size=2).map(
        tuple
    ),
    noticed=st.none() | st.booleans(),
    seal=st.sampled_from(Seal),
    weaknesses=SOME,
    changed=SOME,
    scenario=st.booleans(),
    of=ANY,
)
CARDS = st.builds(
    ProofCard,
    run=st.just("r"),
    task=ANY,
    title=ANY,
    state=st.sampled_from(["done", "needs_human", "pending"]),
    kind=st.none() | st.sampled_from(TaskKind),
    level=st.none() | st.sampled_from(Level),
    proof=st.none() | ANY,
    conclusion=ANY,
    meaning=ANY,
    missing=SOME,
    reasons=SOME,
    decided_by=SOME,
    judge=ANY,
    criteria=st.lists(st.builds(CriterionCard, ANY, ANY, st.booleans(), ANY), max_size=2).map(tuple),
    checks=st.lists(CHECKS, max_size=2).map(tuple),
    tampering=st.lists(st.builds(Tampering, ANY, ANY, ANY), max_size=2).map(tuple),
    open_findings=st.integers(0, 3),
    findings=st.just(()),
    independent=st.none()
    | st.builds(IndependentTests, commit=ANY, files=SOME, commands=SOME, by=ANY, proved=SOME),
    dropped=SOME,
    mutants=st.none() | st.just((3, 2)),
    held=st.none() | st.just((3, 2)),
    base=ANY,
    tree=ANY,
    commit=st.none() | ANY,
    branch=st.none() | ANY,
    agents=SOME,
    attempts=st.integers(0, 9),
    seconds=st.none() | st.just(1.5),
    tokens=st.integers(0, 9999),
    cost_usd=st.none() | st.just(0.5),
)


@given(CARDS)
def test_hostile_text_stays_text(card: ProofCard) -> None:
    layout = lay_out(card)
    plain = render_text([layout])
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", plain)
    assert max(map(len, plain.splitlines())) <= 80
    json.dumps(card.to_json())
    assert msgspec.convert(card.to_json(), ProofCard) == card


@given(CARDS)
def test_markdown_mentions_nobody_and_closes_nothing(card: ProofCard) -> None:
    written = render_markdown([lay_out(card)])
    prose, fence = [], ""
    for line in written.splitlines():
        mark = re.fullmatch(r"  (`{3,})", line)
        if mark and (not fence or mark[1] == fence):
            fence = "" if fence else mark[1]
        elif not fence:
            prose.append(line)
    assert not fence, "every quote is closed"
    text = "\n".join(prose)
    assert not re.search(r"@(?!<!-- -->)|://(?!<!-- -->)|(?<!\\)[\[\]<`](?!!-- -->)", text)
    assert not re.search(r"\\#(?!<!-- -->)|GH\\-\d", text)
    headings = [line for line in prose if line.startswith("#")]
    assert all(line.startswith(("### ✓ ", "### · ", "#### ")) for line in headings)
