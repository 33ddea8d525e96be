"""Every cell of the table of what a sandbox shows: how each place is seen, by every means that works here."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from segue.system.isolation.isolate import Isolation, SandboxOptions
from segue.system.isolation.limits import NOT_STOPPED, VISIBLE, visible_in
from segue.system.isolation.policy import Places, Strength
from segue.system.isolation.toolchain import is_temporary
from segue.system.process.capture import child_environment
from tests.isolation.homes import CREDENTIALS, KEPT_LINES, NEEDS, WORD, make_home
from tests.isolation.means import each

TOP = Path(__file__).resolve().parents[2] / ".pytest_cache"
LOOK = """
import json, os, sys
found = {}
for name, path in json.loads(sys.argv[1]).items():
    found[name] = [None, False]
    try:
        found[name][0] = open(path, encoding="latin-1").read()
    except OSError:
        pass
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        open(path, "a").write("changed")
        found[name][1] = True
    except OSError:
        pass
print(json.dumps(found))
"""
LOGIN = ".codex/auth.json"
SETTINGS = (".npmrc", ".bashrc", ".gradle/gradle.properties", ".config/nix/nix.conf")
REGISTRIES = (".m2/settings.xml", ".m2/settings-security.xml", ".config/pip/pip.conf", ".config/uv/uv.toml")
MASKED = {
    *(*SETTINGS, *REGISTRIES, *KEPT_LINES),
    *(".config/hatch/config.toml", ".pip/pip.conf", ".bundle/config", ".hex/hex.config", ".condarc"),
    *(".nuget/NuGet/NuGet.Config", ".curlrc", ".wgetrc", LOGIN),
}
"""What is no credential by the table: another row, or seen without its secret."""


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a home and a repository; not in /tmp, which sandboxes treat specially."""
    TOP.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="visible-", dir=TOP, ignore_cleanup_errors=True) as folder:
        root = Path(folder)
        (root / "home").mkdir()
        monkeypatch.setenv("HOME", str(root / "home"))
        for name in ("CONFIG", "DATA", "STATE", "CACHE"):
            monkeypatch.delenv(f"XDG_{name}_HOME", raising=False)
        subprocess.run(["git", "init", "--quiet", str(root / "repo")], check=True)
        yield root


def see(root: Path, sandbox: str, paths: dict[str, Path]) -> dict[str, tuple[str | None, bool]]:
    """Return what a program in a sandbox reads at each path, and whether it thinks that it changed it."""
    means, strength = sandbox.split()
    own = root / "home" / ".agent"
    own.mkdir(exist_ok=True)
    isolation = Isolation(
        SandboxOptions(isolation=means, strength=Strength(strength), state_dir=root / "state")
    )
    argv = [sys.executable, "-IS", "-c", LOOK, json.dumps({name: str(path) for name, path in paths.items()})]
    inside = isolation.enclose(
        argv, root / "repo", child_environment(), root / "scratch" / "x" / "y", Places((own,))
    )
    done = subprocess.run(inside.argv, cwd=root / "repo", env=inside.env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {name: (text, changed) for name, (text, changed) in json.loads(done.stdout).items()}


def kinds(path: Path, before: str, found: tuple[str | None, bool]) -> set[str]:
    """Return the table's words for how a place was seen; in a home of its own, all else is hidden."""
    text, changed = found
    is_real = path.read_bytes().decode("latin-1") != before
    if changed:
        return {"writable"} if is_real else {"its own", "hidden"} if text is None else {"a copy"}
    assert not is_real
    if text is None or (not text and before):
        return {"hidden"}
    return {"read-only" if text == before else "without it" if WORD not in text else "changed"}


@pytest.mark.quick(
    *(f"{means} {strength}" for means in ("namespaces", "landlock") for strength in ("standard", "strict"))
)
@pytest.mark.parametrize("sandbox", each(*NOT_STOPPED))
def test_each_place_is_seen_as_the_table_says(root: Path, sandbox: str) -> None:
    if sandbox == "landlock standard" and is_temporary(root):
        pytest.skip("Landlock opens /tmp with all that is below it, as this clone is")
    home = root / "home"
    make_home(home, {**CREDENTIALS, **NEEDS})
    with tempfile.NamedTemporaryFile("w", prefix=".visible-", dir="/tmp") as temporary:
        places: dict[str, list[Path]] = {
            "tree": [root / "repo" / "a.txt"],
            "git": [root / "repo" / ".git" / "config"],
            "home": [home / name for name in ("notes.txt", "projects/other/README.md", ".vimrc")],
            "own": [home / ".agent" / "login.json"],
            "caches": [home / ".cache" / "pip" / "http" / "a" / "b"],
            "toolchains": [home / ".pyenv" / "version", home / ".local" / "bin" / "tool"],
            "identity": [home / ".gitconfig", home / ".config" / "git" / "ignore"],
            "credentials": [home / name for name in CREDENTIALS if name not in MASKED],
            "settings": [home / name for name in SETTINGS],
            "registries": [home / name for name in REGISTRIES],
            "logins": [home / LOGIN, root / "state" / "segue.db"],
            "temporary": [Path(temporary.name)],
            "system": [Path("/etc/hostname"), Path("/etc/passwd")],
        }
        assert places.keys() == VISIBLE.keys()
        for path in (*places["tree"], *places["own"], *places["temporary"], *places["logins"]):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        if sandbox.startswith(("bwrap", "namespaces")) and sandbox.endswith("strict"):
            places["caches"] = [home / ".npm" / "new", home / ".cache" / "new"]
            for path in places["caches"]:
                path.touch()
        paths = {f"{row}:{path}": path for row, listed in places.items() for path in listed}
        before = {name: path.read_bytes().decode("latin-1") for name, path in paths.items()}
        found = see(root, sandbox, paths)
        seen = {name: kinds(path, before[name], found[name]) for name, path in paths.items()}
    wrong = {
        name: was for name, was in seen.items() if visible_in(sandbox, name.partition(":")[0]) not in was
    }
    assert not wrong
