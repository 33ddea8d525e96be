"""The audit log: rotated by size, without secrets; what cannot be logged does not run."""

from __future__ import annotations

from pathlib import Path

from segue.features.relay.audit import Audit
from segue.system.redact import Redactor
from tests.features.relay.place import RelayPlace


def test_strangers_cannot_flood_the_log(tmp_path: Path) -> None:
    audit = Audit(tmp_path / "audit.jsonl", Redactor([]), 100_000, 2)
    for _ in range(1000):
        audit.write_refusal(401, path="/run")
    assert len((tmp_path / "audit.jsonl").read_text().splitlines()) < 100


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
