"""Secrets in the files of git and package managers are known, however those files look."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from pathlib import Path

import pytest

from segue.system.sensitive import repository_secrets, user_secrets

TOKEN = "t0K3n-a1B2c3D4e5F6g7H8"
PASSWORD = "correct-horse"
BASIC = base64.b64encode(f"some-user:{PASSWORD}".encode()).decode()
FILES = {
    ".netrc": f"machine example.org\n  login me\n  password {PASSWORD}\n",
    "_netrc": f"machine example.org login me password {PASSWORD}",
    ".git-credentials": f"https://me:{PASSWORD}@example.org\n",
    ".config/git/credentials": f"https://me:{PASSWORD}@example.org\n",
    ".gitconfig": f'[url "https://{TOKEN}@example.org/"]\n\tinsteadOf = https://example.org/\n',
    ".config/git/config": f'[http "https://example.org/"]\n\textraheader = AUTHORIZATION: basic {BASIC}\n',
    ".npmrc": f"registry=https://npm.example.org/\n//npm.example.org/:_authToken={TOKEN}\n",
    ".yarnrc.yml": f'npmRegistries:\n  "https://npm.example.org":\n    npmAuthToken: "{TOKEN}"\n',
    ".pypirc": f"[distutils]\nindex-servers = pypi\n[pypi]\nusername = __token__\npassword = {PASSWORD}\n",
    ".config/pip/pip.conf": f"[global]\nindex-url = https://me:{PASSWORD}@pypi.example.org/simple\n",
    ".cargo/credentials.toml": f'[registry]\ntoken = "{TOKEN}"\n',
    ".m2/settings.xml": f"<servers><server><id>x</id><password>{PASSWORD}</password></server></servers>",
    ".docker/config.json": json.dumps({"auths": {"https://index.example.org/v1/": {"auth": BASIC}}}),
    ".config/gh/hosts.yml": f"github.com:\n    user: octocat\n    oauth_token: {TOKEN}\n",
    ".config/pypoetry/auth.toml": f'[http-basic.x]\nusername = "me"\npassword = "{PASSWORD}"\n',
    ".composer/auth.json": json.dumps(
        {"http-basic": {"example.org": {"username": "me", "password": PASSWORD}}}
    ),
    ".gem/credentials": f"---\n:rubygems_api_key: {TOKEN}\n",
    ".aws/credentials": f"[default]\naws_secret_access_key = {TOKEN}\n",
    ".kube/config": f"users:\n- name: me\n  user:\n    token: {TOKEN}\n",
    ".cache/huggingface/token": TOKEN,
    ".some-new-tool/credentials.json": json.dumps({"access": TOKEN}),
    ".config/some-new-tool/tokens.yaml": f"default: {TOKEN}\n",
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("name", FILES)
def test_what_a_tool_keeps_is_known(home: Path, name: str) -> None:
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(FILES[name])
    found = user_secrets()
    assert (PASSWORD if PASSWORD in FILES[name] or BASIC in FILES[name] else TOKEN) in found
    harmless = {"https://npm.example.org/", "__token__", "some-user", "octocat", "username", "password"}
    assert not harmless & set(found)


def test_files_may_be_links_but_nothing_is_waited_for(home: Path, tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "dotfiles" / "npmrc").write_text(FILES[".npmrc"])
    (home / ".npmrc").symlink_to(tmp_path / "dotfiles" / "npmrc")
    os.mkfifo(home / ".netrc")
    (home / ".pypirc").mkdir()
    (home / ".git-credentials").symlink_to("/dev/zero")
    with (home / ".pgpass").open("wb") as file:
        file.truncate(10 * 1024**3)
    assert user_secrets() == [TOKEN]


def make_repository(folder: Path) -> None:
    subprocess.run(["git", "init", "-q", str(folder)], check=True)


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=T", "-c", "user.email=t@localhost")
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


@pytest.mark.parametrize(
    ("address", "secret"),
    [
        (f"https://me:{PASSWORD}@example.org/a.git", PASSWORD),
        (f"https://{TOKEN}@example.org/a.git", TOKEN),
        (f"https://{TOKEN}:x-oauth-basic@example.org/a.git", TOKEN),
        (f"https://example.org/a.git?private_token={TOKEN}", TOKEN),
    ],
)
def test_a_token_in_a_remote_is_known(tmp_path: Path, address: str, secret: str) -> None:
    repo = tmp_path / "repo"
    make_repository(repo)
    git(repo, "remote", "add", "origin", address)
    (repo / "inner").mkdir()
    assert secret in repository_secrets(repo)
    assert secret in repository_secrets(repo / "inner")
    git(repo, "commit", "-q", "--allow-empty", "-m", "x")
    git(repo, "worktree", "add", "-q", str(tmp_path / "other"))
    assert secret in repository_secrets(tmp_path / "other")
