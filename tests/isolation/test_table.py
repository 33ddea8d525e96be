"""Each place of the table in docs/guides/sandbox.md is seen by a program as the table says."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from segue.domain.errors import ToolMissing
from segue.system.process.capture import child_environment
from segue.system.sandbox.isolation import Isolation, SandboxOptions
from segue.system.sandbox.places import is_temporary
from segue.system.sandbox.policy import Places, Strength
from tests.isolation.means import each

TOP = Path(__file__).resolve().parents[2] / ".pytest_cache"
LOOK = """
import json, sys
found = {}
for path in json.loads(sys.argv[1]):
    found[path] = [None, False]
    try:
        found[path][0] = open(path).read()
        open(path, "a").write("changed")
        found[path][1] = True
    except OSError:
        pass
print(json.dumps(found))
"""
WRITABLE, READ_ONLY, HIDDEN = "writable", "read-only", "hidden"
ROWS = {
    "the work tree": (["repo/a.txt"], (WRITABLE,) * 4),
    "git": (["repo/.git/config"], (READ_ONLY, READ_ONLY, WRITABLE, WRITABLE)),
    "other files of the home": (["home/notes.txt", "home/.bashrc"], (READ_ONLY, HIDDEN, READ_ONLY, HIDDEN)),
    "its own": (["home/.agent/login"], (WRITABLE,) * 4),
    "caches": (["home/.cache/pip/a"], (WRITABLE, HIDDEN, WRITABLE, WRITABLE)),
    "toolchains": (["home/.pyenv/version", "home/.gitconfig"], (READ_ONLY,) * 4),
    "credentials": (
        [
            *("home/.ssh/id_ed25519", "home/.aws/credentials", "home/.config/gh/hosts.yml", "home/.npmrc"),
            *("home/.docker/config.json", "home/.cargo/credentials.toml", "home/.bash_history"),
            *("home/.mozilla/firefox/key4.db", "home/.codex/auth.json", "state/segue.db"),
        ],
        (HIDDEN,) * 4,
    ),
    "the machine": (["/etc/hostname", "/etc/passwd"], (READ_ONLY,) * 4),
}
SANDBOXES = ("bwrap standard", "bwrap strict", "landlock standard", "landlock strict")


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a home and a repository; not in /tmp, which sandboxes treat specially."""
    TOP.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="table-", dir=TOP, ignore_cleanup_errors=True) as folder:
        monkeypatch.setenv("HOME", f"{folder}/home")
        subprocess.run(["git", "init", "--quiet", f"{folder}/repo"], check=True)
        yield Path(folder)


@pytest.mark.parametrize("sandbox", each(*SANDBOXES))
def test_each_place_is_seen_as_the_table_says(root: Path, sandbox: str) -> None:
    if sandbox.endswith("standard") and is_temporary(root):
        pytest.skip("temporary folders are special, and this clone is in one")
    column = SANDBOXES.index(sandbox)
    expected = {str(root / name): words[column] for names, words in ROWS.values() for name in names}
    before = {}
    for path in map(Path, expected):
        if path.is_relative_to(root) and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("content")
        before[str(path)] = path.read_text()
    kind, strength = sandbox.split()
    isolation = Isolation(SandboxOptions(kind, Strength(strength), state_dir=root / "state"))
    argv = [sys.executable, "-IS", "-c", LOOK, json.dumps([*expected])]
    own = Places((root / "home" / ".agent",))
    inside = isolation.enclose(argv, root / "repo", child_environment(), root / "scratch" / "x", own)
    done = subprocess.run(inside.argv, cwd=root / "repo", env=inside.env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    seen = {}
    for path, (text, changed) in json.loads(done.stdout).items():
        is_changed = Path(path).read_text() != before[path]
        assert is_changed == changed
        seen[path] = WRITABLE if changed else READ_ONLY if text == before[path] else HIDDEN
    assert seen == expected


@pytest.mark.parametrize("kind", each("bwrap", "landlock"))
def test_a_program_that_is_not_there_is_not_started_outside(root: Path, kind: str) -> None:
    """It may appear in the work tree a moment later."""
    isolation = Isolation(SandboxOptions(kind))
    with pytest.raises(ToolMissing, match="cannot be found"):
        isolation.enclose([".venv/bin/agent"], root / "repo", child_environment(), root / "scratch")


@pytest.mark.parametrize("kind", each("bwrap", "landlock"))
def test_a_link_out_of_the_work_tree_opens_nothing(root: Path, kind: str) -> None:
    (root / "home" / ".ssh").mkdir(parents=True)
    (root / "home" / ".ssh" / "key").write_text("secret")
    (root / "repo" / "fixtures").symlink_to(root / "home" / ".ssh")
    given = Places((Path("fixtures"),), (Path("fixtures"),))
    isolation = Isolation(SandboxOptions(kind, given=given))
    argv = ["cat", "fixtures/key"]
    inside = isolation.enclose(argv, root / "repo", child_environment(), root / "scratch")
    done = subprocess.run(inside.argv, cwd=root / "repo", env=inside.env, capture_output=True, text=True)
    assert (done.returncode != 0, done.stdout) == (True, "")
