"""Snapshots are compared by what the work tree is."""

from __future__ import annotations

from segue.domain.workspace import Snapshot


def test_names_that_follow_from_the_changes_do_not_make_a_difference() -> None:
    one, same = Snapshot("a", "main", "x", files=("f",)), Snapshot("a", "main", "x")
    assert one == same
    assert hash(one) == hash(same)
    assert one != Snapshot("a", "main", "y", files=("f",))
    assert one != ("a", "main", "x")
