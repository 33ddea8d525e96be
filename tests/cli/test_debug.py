"""The log of what Segue does: `--debug` and SEGUE_LOG."""

from __future__ import annotations

import re

from tests.cli.place import Place

SECRET = "tok-3f9a81c2d7e64b50"


def test_debug_shows_what_the_store_does(place: Place) -> None:
    said = place.segue("--debug", "run", "plan.md", "--agent", "scripted", "--task", "1").stderr
    assert re.search(r" DEBUG segue\.store\[\d+\] Opened .*segue\.db\.", said)
    assert re.search(r" INFO segue\.store\[\d+\] Claimed run \S+ as ", said)
    assert re.search(r" INFO segue\.store\[\d+\] Released run ", said)
    assert "segue.store" not in place.segue("status").stderr


def test_a_log_file_is_private_and_has_no_secrets(place: Place) -> None:
    log = place.root / "segue.log"
    folder = place.root / f"with-{SECRET}"
    place.segue("status", SEGUE_LOG=f"file:{log}", SEGUE_STATE_DIR=str(folder), MY_API_KEY=SECRET)
    text = log.read_text()
    assert "Opened " in text
    assert SECRET not in text
    assert log.stat().st_mode & 0o777 == 0o600
