"""The relay's settings: unsafe ones are refused before anything listens."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.place import DEADLINE
from tests.features.relay.place import RelayPlace
from tests.warm import run_segue

ACTION = '[relay.actions.x]\nargv = ["true"]\n'


@pytest.mark.parametrize(
    ("config", "says", "code"),
    [
        (f'[relay]\nhost = "0.0.0.0"\n{ACTION}', "behind_tunnel", 2),
        ("[relay]\nport = 0\n", "No actions", 2),
        (ACTION, "segue relay token", 4),
    ],
)
def test_what_is_unsafe_or_missing_is_named(tmp_path: Path, config: str, says: str, code: int) -> None:
    place = RelayPlace.make(tmp_path, "")
    place.config.write_text(config)
    if code == 4:
        (place.folder / "token.json").unlink()
    assert says in place.segue("serve", code=code).stderr


def test_a_project_cannot_give_itself_actions(tmp_path: Path) -> None:
    place = RelayPlace.make(tmp_path, ACTION)
    (tmp_path / "segue.toml").write_text(ACTION)
    place.config.unlink()
    done = run_segue(("relay",), tmp_path, place.env, DEADLINE)
    assert done.returncode == 2
    assert "agents can change" in done.stderr
