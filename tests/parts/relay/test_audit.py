"""The audit log: rotated by size, without secrets; what cannot be logged does not run."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from segue.parts.relay.audit import Audit
from segue.system.redact import Redactor
from tests.parts.relay.place import RelayPlace


def test_the_log_is_rotated_and_keeps_the_newest(tmp_path: Path) -> None:
    audit = Audit(tmp_path / "audit.jsonl", Redactor([]), 1000, 2)
    for number in range(100):
        audit.write("started", number=number)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2"]
    numbers = []
    for name in reversed(names):
        text = (tmp_path / name).read_text()
        assert len(text) <= 1000
        numbers += [json.loads(line)["number"] for line in text.splitlines()]
    assert numbers == list(range(numbers[0], 100))
    assert (tmp_path / "audit.jsonl").stat().st_mode & 0o077 == 0


def test_strangers_cannot_flood_the_log(tmp_path: Path) -> None:
    audit = Audit(tmp_path / "audit.jsonl", Redactor([]), 100_000, 2)
    for _ in range(1000):
        audit.write_refusal(401, path="/run")
    assert len((tmp_path / "audit.jsonl").read_text().splitlines()) < 100


@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=10), st.text(max_size=30), max_size=4))
def test_whatever_is_written_is_one_line_without_secrets(values: dict[str, str]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        audit = Audit(Path(folder) / "log", Redactor(["a-secret-word"]), 100_000, 1)
        audit.write("started", parameters={**values, "x": "before a-secret-word after"})
        (line,) = (Path(folder) / "log").read_bytes().splitlines()
    assert json.loads(line)["parameters"]["x"] == "before [redacted] after"


def test_without_a_log_nothing_is_run(tmp_path: Path) -> None:
    argv = f'["touch", "{tmp_path}/ran"]'
    place = RelayPlace.make(tmp_path / "place", f"[relay.actions.touch]\nargv = {argv}\n")
    with place.serving() as relay:
        (place.folder / "audit.jsonl").mkdir()
        answer = relay.run("touch", key="key")
        assert (answer.status_code, answer.json()["code"]) == (503, "log")
        assert not (tmp_path / "ran").exists()
        (place.folder / "audit.jsonl").rmdir()
        assert relay.run("touch", key="key").json()["ok"] is True
    assert (tmp_path / "ran").exists()
