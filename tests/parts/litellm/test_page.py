"""docs/guides/litellm.md lists every provider, status and kind of profile."""

from __future__ import annotations

import re
from pathlib import Path

from tests.parts.litellm.place import catalogue

PAGE = (Path(__file__).parents[3] / "docs" / "guides" / "litellm.md").read_text("utf-8")
SPANS = set(re.findall(r"`([^`\n]+)`", PAGE))


def test_every_kind_of_profile_and_its_options_are_explained() -> None:
    words = {name for kind in catalogue.KINDS for name in kind.__struct_fields__}
    words |= {str(kind.__struct_config__.tag) for kind in catalogue.KINDS}
    assert words - SPANS == set()


def test_every_provider_and_every_exception_is_named() -> None:
    from segue.parts.litellm.failures import _STATUS

    assert {name.split("/")[0] for name in SPANS} >= {"composer-cli", "AGENT-cli", "composite"}
    told = dict(re.findall(r"\| `(\w+)` \| (\d+) \|", PAGE))
    assert told == {name: str(status) for name, status in _STATUS.items()}
