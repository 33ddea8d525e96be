"""Schemas that leak and schemas that do not: the check misses no leak and raises no false alarm."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.parts.supabase.place import checked, found

CORPUS = Path(__file__).parent / "rls_corpus"
LEAKING = sorted((CORPUS / "leaking").glob("*.sql"))
SOUND = sorted((CORPUS / "sound").glob("*.sql"))


@pytest.mark.quick("bucket_open_to_all_users", "project_moved_to_another_org")
@pytest.mark.parametrize("schema", LEAKING, ids=lambda path: path.stem)
def test_a_leak_is_found_where_it_is(tmp_path: Path, rls_server: str, schema: Path) -> None:
    text = schema.read_text()
    place = text.splitlines()[0].removeprefix("-- leaks through: ")
    errors = found(checked(tmp_path, rls_server, text))
    assert errors
    assert all(error.startswith(place) for error in errors), errors


@pytest.mark.quick("function_with_the_callers_rights", "roles_given_by_the_server")
@pytest.mark.parametrize("schema", SOUND, ids=lambda path: path.stem)
def test_a_sound_schema_passes(tmp_path: Path, rls_server: str, schema: Path) -> None:
    assert found(checked(tmp_path, rls_server, schema.read_text())) == []


def test_the_corpus_is_large_enough() -> None:
    assert len(LEAKING) >= 20
    assert len(SOUND) >= 20
