"""Secrets are the user's own files: what somebody else wrote, linked or can read is not used."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from segue.domain.errors import SegueError
from segue.system.secrets import keep_secret, make_secret_folder, read_secret, secret_folder, write_secret

pytestmark = pytest.mark.skipif(os.name == "nt", reason="checks owners and modes as POSIX has them")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_secret_folder(tmp_path / "private")


def test_a_secret_is_made_once_and_nobody_else_can_read_it(folder: Path) -> None:
    made = keep_secret(folder / "token", lambda: "first")
    assert made == keep_secret(folder / "token", lambda: "second") == "first"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "token").stat().st_mode & 0o777 == 0o600


def test_a_link_is_not_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("known to them")
    (tmp_path / "theirs").chmod(0o600)
    (folder / "token").symlink_to(tmp_path / "theirs")
    for use in (
        lambda: read_secret(folder / "token"),
        lambda: write_secret(folder / "token", b"x"),
        lambda: keep_secret(folder / "token", lambda: "x"),
    ):
        with pytest.raises(SegueError, match="is a link"):
            use()
    assert (tmp_path / "theirs").read_text() == "known to them"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_file_that_others_can_open_is_not_used(folder: Path, mode: int) -> None:
    write_secret(folder / "token", b"x")
    (folder / "token").chmod(mode)
    with pytest.raises(SegueError, match="by others"):
        read_secret(folder / "token")


def test_each_state_folder_has_secrets_of_its_own_and_none_are_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "user"))
    own = tmp_path / "user" / "segue"
    project = tmp_path / "clone" / "st"
    assert secret_folder(None) == secret_folder(own) == own / "private"
    assert secret_folder(project).parent == own / "private"
    assert secret_folder(project) != secret_folder(tmp_path / "other")
