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


def test_a_folder_that_is_a_link_is_not_used(folder: Path, tmp_path: Path) -> None:
    write_secret(folder / "token", b"x")
    (tmp_path / "link").symlink_to(folder)
    for use in (
        lambda: read_secret(tmp_path / "link" / "token"),
        lambda: make_secret_folder(tmp_path / "link"),
    ):
        with pytest.raises(SegueError, match="is a link"):
            use()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_file_that_others_can_open_is_not_used(folder: Path, mode: int) -> None:
    write_secret(folder / "token", b"x")
    (folder / "token").chmod(mode)
    with pytest.raises(SegueError, match="by others"):
        read_secret(folder / "token")


def test_a_folder_that_others_can_open_is_closed(folder: Path) -> None:
    write_secret(folder / "token", b"x")
    folder.chmod(0o755)
    assert read_secret(folder / "token") == b"x"
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can give files away")
def test_what_belongs_to_somebody_else_is_not_used(folder: Path) -> None:
    write_secret(folder / "token", b"x")
    os.chown(folder / "token", 12345, 12345)
    with pytest.raises(SegueError, match="somebody else"):
        read_secret(folder / "token")
    os.chown(folder, 12345, 12345)
    with pytest.raises(SegueError, match="somebody else"):
        make_secret_folder(folder)


def test_no_pipe_and_no_folder_is_read(folder: Path) -> None:
    os.mkfifo(folder / "pipe", 0o600)
    (folder / "folder").mkdir(mode=0o700)
    for name in ("pipe", "folder"):
        with pytest.raises(SegueError):
            read_secret(folder / name)


def test_each_state_folder_has_secrets_of_its_own_and_none_are_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "user"))
    own = tmp_path / "user" / "segue"
    project = tmp_path / "clone" / "st"
    assert secret_folder(None) == secret_folder(own) == own / "private"
    assert secret_folder(project).parent == own / "private"
    assert secret_folder(project) != secret_folder(tmp_path / "other")
