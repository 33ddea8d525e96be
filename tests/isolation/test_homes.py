"""Which files of a home are hidden, and which stay: credentials of real tools, and what builds need."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from segue.system.isolation.homes import find_private, mask, own_places
from segue.system.isolation.places import SECRETS
from tests.isolation.homes import CREDENTIALS, KEPT_LINES, NEEDS, SQLITE, WORD, make_home

PASSWORD = "Margarethe-1912"
"""What a person chooses; nothing about it looks random."""


class Looked:
    """A home, and what of it a program sees."""

    def __init__(self, home: Path, files: dict[str, str]) -> None:
        self.home, self.files = home, files
        make_home(home, files)
        found = find_private(home)
        self.hidden = {*found.hidden, *(home / name for name in SECRETS)}
        self.masked = dict(found.masked)

    def sees(self, name: str) -> str | None:
        """Return what is seen of a file."""
        path = self.home / name
        if any(path.is_relative_to(place) for place in self.hidden):
            return None
        return self.masked.get(path, self.files[name])


@pytest.mark.parametrize("word", [WORD, PASSWORD])
def test_credentials_of_real_tools_are_not_seen_and_what_builds_need_is(tmp_path: Path, word: str) -> None:
    written = {
        name: content if content is SQLITE else content.replace(WORD, word)
        for name, content in CREDENTIALS.items()
    }
    home = Looked(tmp_path, {**written, **NEEDS})
    seen = {name: home.sees(name) for name in written}
    assert [name for name, text in seen.items() if text and (word in text or text == written[name])] == []
    assert [name for name in NEEDS if home.sees(name) != NEEDS[name]] == []
    assert [name for name, line in KEPT_LINES.items() if line not in (home.sees(name) or "")] == []


@pytest.mark.parametrize(
    "name",
    [
        ".newtool/state",
        ".config/newtool/data",
        ".local/share/newtool/x",
        ".local/state/newtool/x",
        ".newtoolrc",
    ],
)
def test_a_file_that_only_its_owner_may_read_is_hidden_whatever_is_in_it(tmp_path: Path, name: str) -> None:
    make_home(tmp_path, {name: "plain words\n"})
    assert not find_private(tmp_path).hidden
    (tmp_path / name).chmod(0o600)
    assert [place for place in find_private(tmp_path).hidden if (tmp_path / name).is_relative_to(place)]


def test_modes_say_nothing_where_every_file_is_private(tmp_path: Path) -> None:
    make_home(tmp_path, {".config/newtool/settings": "colour = blue\n"})
    (tmp_path / ".config/newtool/settings").chmod(0o600)
    before = os.umask(0o077)
    try:
        assert not find_private(tmp_path).hidden
    finally:
        os.umask(before)


def test_a_folder_with_a_socket_or_too_much_to_look_at_is_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_home(tmp_path, {".one/run/readme": "x\n", **{f".two/{number}": "x\n" for number in range(300)}})
    monkeypatch.chdir(tmp_path / ".one" / "run")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("s")
        assert set(find_private(tmp_path).hidden) == {tmp_path / ".one", tmp_path / ".two"}


def test_a_link_is_hidden_where_it_leads(tmp_path: Path) -> None:
    make_home(tmp_path, {"dotfiles/gh/hosts.yml": f"oauth_token: {WORD}\n"})
    (tmp_path / ".config").mkdir()
    (tmp_path / ".config" / "gh").symlink_to(tmp_path / "dotfiles" / "gh")
    (tmp_path / ".round").symlink_to(tmp_path)
    (tmp_path / ".broken").symlink_to(tmp_path / "nowhere")
    assert find_private(tmp_path).hidden == (tmp_path / "dotfiles" / "gh",)


def test_settings_elsewhere_are_looked_at_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_home(tmp_path, {"etc/gh/hosts.yml": f"oauth_token: {WORD}\n", "etc/git/ignore": "*.o\n"})
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "etc"))
    assert find_private(tmp_path).hidden == (tmp_path / "etc" / "gh",)


def test_a_program_sees_what_is_its_own(tmp_path: Path) -> None:
    make_home(tmp_path, {".goose/a": "", ".config/goose/b": "", ".mytool/agent.py": "", ".config/x/y.py": ""})
    command = ["goose", str(tmp_path / ".mytool/agent.py"), str(tmp_path / ".config/x/y.py"), "--x"]
    found = own_places(tmp_path, command, Path("/usr/bin/goose"))
    assert found == [tmp_path / name for name in (".goose", ".config/goose", ".mytool", ".config/x")]


@pytest.mark.parametrize(
    "text",
    [
        'export PATH="$HOME/bin:$PATH"\nexport API_KEY=$(pass show api)\nexport TOKEN=${TOKEN:-}\n',
        "registry=https://npm.example/\n//npm.example/:_authToken=${NPM_TOKEN}\n",
        "[user]\n\tsigningkey = 0xA1B2C3D4E5F60718\n[gpg]\n\tprogram = /usr/bin/gpg\n",
        "bindkey '^R' history-search\nalias token='cat ~/.token'\nssh-add ~/.ssh/key\n",
        "password = ''\npassword=\ntoken: null\nauth: true\nsecret: /run/secrets/x\n",
        "http://proxy.example:8080/\nhttps://example.com/a:b\n",
        "6f1ed002ab5595859014ebf0951522d9b0d1e0f0\nsha512-Zm9v\nmyVeryLongFunctionNameWithNumber2\n",
    ],
)
def test_settings_without_a_secret_stay_as_they_are(text: str) -> None:
    assert mask(text) == text
