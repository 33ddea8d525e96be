"""Which last messages of an agent are questions: cases that were written before the rule."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from segue.domain.question import find_question

MESSAGES = tomllib.loads(Path(__file__).with_name("last_messages.toml").read_text())["messages"]


@pytest.mark.parametrize("case", MESSAGES, ids=lambda case: case["text"].strip()[:40])
def test_a_message_asks_or_does_not(case: dict[str, Any]) -> None:
    assert bool(find_question(case["text"])) is case["asks"]


def test_the_question_is_shown_with_what_leads_to_it() -> None:
    choice = "1. Keep it.\n2. Replace it.\n\nWhich one?"
    assert find_question(f"Hello.\n\n{choice}") == f"Hello.\n\n{choice}"
    assert find_question("word " * 2000 + f"\n\n{choice}").endswith("Which one?")
    assert len(find_question("word " * 2000 + f"\n\n{choice}")) <= 1000
