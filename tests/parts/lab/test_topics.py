"""Texts about the same thing come together, others stay apart, whatever their order."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from segue.parts.lab.reports.topics import extract_words, group_by_topic


def test_wordings_of_one_question_are_one_topic() -> None:
    found = group_by_topic(
        [
            "supabase realtime subscription not firing",
            "Supabase realtime subscriptions",
            "how to use supabase realtime subscription",
            "next.js middleware cookies",
            "Next.js middleware cookie",
        ]
    )
    assert len(set(found.values())) == 2
    assert found["Supabase realtime subscriptions"] == found["supabase realtime subscription not firing"]
    assert found["Next.js middleware cookie"] == found["next.js middleware cookies"]


def test_the_most_frequent_wording_names_the_topic() -> None:
    found = group_by_topic(["create tables", "Create the tables", "Create the tables"])
    assert set(found.values()) == {"Create the tables"}


def test_texts_without_words_are_their_own_topics() -> None:
    assert group_by_topic(["", "42", "表を作る"]) == {"": "", "42": "42", "表を作る": "表を作る"}


def test_one_common_word_is_not_enough() -> None:
    found = group_by_topic(["supabase auth session refresh", "supabase storage bucket upload"])
    assert len(set(found.values())) == 2


def test_words_are_what_carries_meaning() -> None:
    assert extract_words("How do I use the RLS policies of Next.js 14?") == {"rls", "policy", "next.js"}


@given(st.lists(st.text(alphabet="abc de", max_size=12), max_size=20), st.randoms(use_true_random=False))
def test_order_is_of_no_matter(texts: list[str], chance: random.Random) -> None:
    shuffled = texts.copy()
    chance.shuffle(shuffled)
    assert group_by_topic(texts) == group_by_topic(shuffled)
    assert set(group_by_topic(texts)) == set(texts)
    assert set(group_by_topic(texts).values()) <= set(texts)
