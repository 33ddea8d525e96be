"""The reviewers' settings: commands are split without a shell, and mistakes are told before anything runs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.domain.options import OptionError, fill_placeholders, read_options, split_command
from segue.reviewers.options import PRESETS, CommandReviewOptions
from tests.reviewers.place import preset


@pytest.mark.parametrize(
    "wrong",
    [
        {"argv": ["x"]},
        {"argv": [], "format": "ruff"},
        {"argv": ["x\0"], "format": "ruff"},
        {"argv": ["x", "{sha}"], "format": "ruff"},
        {"argv": ["x"], "format": "xml"},
        {"argv": ["x"], "format": "ruff", "min_severity": "bad"},
    ],
)
def test_mistakes_in_the_commands_options(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        read_options(CommandReviewOptions, wrong)


@given(st.lists(st.text(min_size=1, alphabet=st.characters(blacklist_characters="'\0\n")), min_size=1))
def test_quoted_words_come_through_whole(words: list[str]) -> None:
    assert split_command(" ".join(f"'{word}'" for word in words)) == words


@given(st.text())
def test_splitting_ends_in_words_or_in_an_error(command: str) -> None:
    try:
        words = split_command(command)
    except ValueError:
        return
    assert words


@given(st.text())
def test_a_value_is_never_looked_at_again(value: str) -> None:
    assert fill_placeholders("{{{base}}}", {"base": value}) == "{" + value + "}"


@pytest.mark.parametrize("name", PRESETS)
def test_presets_can_be_changed(name: str) -> None:
    assert preset(name).timeout == 1800
    assert preset(name, timeout=5).timeout == 5
