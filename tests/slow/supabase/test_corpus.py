"""Schemas that leak and schemas that do not: the check misses no leak and raises no false alarm."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.features.supabase.place import checked, found

CORPUS = Path(__file__).parent / "corpus"
LEAKING = sorted((CORPUS / "leaking").glob("*.sql"))
SOUND = sorted((CORPUS / "sound").glob("*.sql"))


@pytest.mark.parametrize("schema", LEAKING, ids=lambda path: path.stem)
def test_a_leak_is_found_where_it_is(tmp_path: Path, rls_server: str, schema: Path) -> None:
    text = schema.read_text()
    place = text.splitlines()[0].removeprefix("-- leaks through: ")
    errors = found(checked(tmp_path, rls_server, text))
    assert errors
    assert all(error.startswith(place) for error in errors), errors


@pytest.mark.parametrize("schema", SOUND, ids=lambda path: path.stem)
def test_a_sound_schema_passes(tmp_path: Path, rls_server: str, schema: Path) -> None:
    assert found(checked(tmp_path, rls_server, schema.read_text())) == []
