"""A clone that brings a state folder with tokens of its own: none of them opens anything."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from tests.cli.place import Place

KNOWN = "a-token-that-the-attacker-knows"


def plant(place: Place) -> Path:
    """Commit a state folder with every file that once had a secret in it."""
    state = place.repo / "st"
    digest = hashlib.sha256(KNOWN.encode()).hexdigest()
    files = {
        "relay/token.json": json.dumps({"sha256": digest, "made": 1.0}),
        "bridge-token": KNOWN,
        "provider/proxy-key": KNOWN,
        "private/bridge-token": KNOWN,
        "private/proxy/key": KNOWN,
        "private/page/token": KNOWN,
        "private/relay/token.json": json.dumps({"sha256": digest, "made": 1.0}),
    }
    for name, text in files.items():
        path = state / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o600)
    place.env["SEGUE_STATE_DIR"] = str(state)  # as if the user trusted the project that sets it
    return state


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_planted_tokens_open_nothing(tmp_path: Path) -> None:
    place = Place.make(tmp_path)
    state = plant(place)
    before = contents(state)
    config = tmp_path / "relay.toml"
    config.write_text('[relay.actions.x]\nargv = ["true"]\n')
    refused = place.segue("relay", "serve", "--config", str(config), code=4)
    assert "has no token yet" in refused.stderr
    made = place.segue("relay", "token", "--config", str(config)).stdout.strip()
    key = place.segue("proxy", "key").stdout.strip()
    assert KNOWN not in (made, key)
    assert contents(state) == before
    private = tmp_path / "state" / "segue" / "private"
    [own] = private.iterdir()
    assert sorted(str(path.relative_to(own)) for path in own.rglob("*") if path.is_file()) == [
        "proxy/.lock",
        "proxy/key",
        "relay/token.json",
    ]
    assert {
        path.stat().st_mode & 0o077 for path in [private, *private.rglob("*")] if path.name != ".lock"
    } == {0}
