"""Every locked package has a free licence, and the check says no to others."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

LICENCES: dict[str, Any] = runpy.run_path(str(Path(__file__).parent.parent / "packaging" / "licences.py"))


def test_every_locked_package_is_free() -> None:
    found = {name: LICENCES["licence"](name) for name in LICENCES["locked"]()}
    assert len(found) > 100
    assert {name: text for name, text in found.items() if not LICENCES["is_free"](text)} == {}
    assert not [name for name in found if "enterprise" in name]


@pytest.mark.parametrize(
    "text", ["", "Proprietary", "Other/Proprietary License", "LicenseRef-Proprietary", "Commercial", "Custom"]
)
def test_an_unknown_or_proprietary_licence_is_named(text: str) -> None:
    assert not LICENCES["is_free"](text)
