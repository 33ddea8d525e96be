"""A whole run whose agent prints secrets in every spelling: no file that Segue keeps has them."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.place import Place
from tests.system.spelling import WHOLE, encoded

KNOWN = "kn0wn/s3cret&value+1"
IN_FILE = "fr0m-the-env-file/2"


def test_no_file_of_segue_has_a_secret(tmp_path: Path) -> None:
    place = Place.make(tmp_path, plan="# Plan\n\n## Task 1\nWrite one.\n")
    (place.repo / ".git" / "info" / "exclude").write_text(".env\n")
    (place.repo / ".env").write_text(f"API_KEY='{IN_FILE}'\n")
    spellings = [spell(secret) for spell in WHOLE.values() for secret in (KNOWN, IN_FILE)]
    spellings += [
        encoded(secret, before, b"!", False) for secret in (KNOWN, IN_FILE) for before in (b"", b"a", b"ab")
    ]
    said = json.dumps("\n".join([*spellings, f"{KNOWN[:9]}\x1b[31m{KNOWN[9:]}"]))
    place.script(f'[[on]]\nsay = {said}\nstderr = {said}\nwrite = {{ "one.txt" = "1" }}\n')
    shown = place.segue("run", "plan.md", MY_TOKEN=KNOWN)
    pages = [
        place.segue(*args, MY_TOKEN=KNOWN).stdout
        for args in (["logs"], ["status", "--json"], ["db", "export", "events"])
    ]
    kept = [
        path.read_bytes().decode("utf-8", "replace")
        for path in (tmp_path / "state").rglob("*")
        if path.is_file()
    ]
    assert any("[redacted]" in text for text in kept)
    for text in (shown.stdout, shown.stderr, *pages, *kept):
        for secret in (KNOWN, IN_FILE, *spellings):
            assert secret not in text
