"""The relay's settings: unsafe ones are refused before anything listens."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.parts.relay.place import RelayPlace

ACTION = '[relay.actions.x]\nargv = ["true"]\n'


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (f'[relay]\nhost = "0.0.0.0"\n{ACTION}', "behind_tunnel"),
        (f'[relay]\ncertfile = "cert.pem"\n{ACTION}', "belong together"),
        (f'[relay]\ncertfile = "no.pem"\nkeyfile = "no.pem"\n{ACTION}', "certificate cannot be used"),
        ("[relay]\nport = 0\n", "No actions"),
        ('[relay.actions.x]\nargv = ["{who}"]\nparameters = { who = ".*" }\n', "come from a parameter"),
        ('[relay.actions.x]\nargv = ["a", "{who}"]\n', "unknown placeholder"),
        ('[relay.actions.x]\nargv = ["a"]\nparameters = { who = ".*" }\n', "not used"),
        ('[relay.actions.x]\nargv = ["a", "{who}"]\nparameters = { who = "(" }\n', "a regular expression"),
        ("[relay.actions.x]\nargv = []\n", "names the program"),
        ('[relay.actions.x]\nargv = ["a"]\ncwd = "here"\n', "must be absolute"),
        ('[relay.actions."a/b"]\nargv = ["a"]\n', "a name of letters"),
        (f"{ACTION}shell = true\n", "is not an option"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, config: str, said: str) -> None:
    place = RelayPlace.make(tmp_path, "")
    place.config.write_text(config)
    assert said in place.segue("serve", code=2).stderr


def test_without_a_token_nothing_listens(tmp_path: Path) -> None:
    place = RelayPlace.make(tmp_path, ACTION)
    (place.folder / "token.json").unlink()
    assert "segue relay token" in place.segue("serve", code=4).stderr


def test_a_project_cannot_give_itself_actions(tmp_path: Path) -> None:
    import subprocess

    from tests.cli.place import SEGUE

    place = RelayPlace.make(tmp_path, ACTION)
    (tmp_path / "segue.toml").write_text(ACTION)
    done = subprocess.run(
        [*SEGUE, "relay", "actions"], cwd=tmp_path, env=place.env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "agents can change" in done.stderr
    assert "x" in place.segue("actions").stdout
