"""Looks at every place of the table of what a sandbox shows."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest

from segue.proof.execute import SealOptions
from segue.system.isolation.isolate import Isolation, SandboxOptions
from segue.system.isolation.landlock import landlock_abi
from segue.system.isolation.places import is_temporary
from segue.system.isolation.policy import Places, Strength
from segue.system.process.capture import child_environment
from tests.isolation.homes import CREDENTIALS, KEPT_LINES, NEEDS, WORD, make_home
from tests.isolation.limits import VISIBLE, visible_in
from tests.proof.projects import Checkout

SealedBy = Literal["bwrap", "namespaces", "copy"]
TOP = Path(__file__).resolve().parents[2] / ".pytest_cache"


LOOK = """
import base64, json, os, sys, zlib
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
print(base64.b64encode(zlib.compress(json.dumps(found).encode())).decode())
"""
"""It says briefly what it found, because the output of a check is kept only in part."""


KEYRING = """
import ctypes, json, os
library, failed = ctypes.CDLL(None, use_errno=True), []
first = 248 if os.uname().machine == "x86_64" else 217
for number, arguments in enumerate(((b"user", b"a", b"x", 1, -2), (b"user", b"a", b"", -2), (0, -3, 0))):
    failed.append(0 if library.syscall(first + number, *arguments) >= 0 else ctypes.get_errno())
print(json.dumps(failed))
"""


LOGIN = ".codex/auth.json"


SETTINGS = (".npmrc", ".bashrc", ".gradle/gradle.properties", ".config/nix/nix.conf")


REGISTRIES = (".config/pip/pip.conf", ".config/uv/uv.toml")


MAVEN = (".m2/settings.xml", ".m2/settings-security.xml")


PACKAGES = (
    ".cargo/registry/src/index/jsonwebtoken/src/lib.rs",
    ".m2/repository/org/x/1/x.pom",
    "go/pkg/mod/golang.org/x/oauth2/token.go",
)


MASKED = {
    *(*SETTINGS, *REGISTRIES, *MAVEN, *KEPT_LINES),
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
    return unpack(done.stdout)


def unpack(output: str) -> dict[str, tuple[str | None, bool]]:
    """Return what a program has found."""
    found = json.loads(zlib.decompress(base64.b64decode(output)))
    return {name: (text, changed) for name, (text, changed) in found.items()}


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


def make_project(root: Path, means: SealedBy, read: tuple[Path, ...] = ()) -> Checkout:
    isolation = Isolation(SandboxOptions(given=Places(read=read), state_dir=root / "state"))
    return Checkout(root, {"a.txt": "a"}, SealOptions(means=means, timeout=300), isolation)


def look_in_check(project: Checkout, paths: dict[str, Path]) -> dict[str, tuple[str | None, bool]]:
    """Return what a sealed check reads at each path, and whether it thinks that it changed it."""
    names = json.dumps({name: str(path) for name, path in paths.items()})
    return unpack(run_check(project, {"look.py": LOOK.replace("sys.argv[1]", repr(names))}))


def run_check(project: Checkout, files: dict[str, str]) -> str:
    result = project.check({**files, "b.txt": "b"}, [sys.executable, "-IS", "look.py"])
    assert result.exit_code == 0, result.output
    return result.output


@contextmanager
def list_places(root: Path, repo: Path) -> Iterator[dict[str, list[Path]]]:
    """Yield the places of each row of the table, with something in them."""
    home = root / "home"
    make_home(home, {**CREDENTIALS, **NEEDS})
    with tempfile.NamedTemporaryFile("w", prefix=".visible-", dir="/tmp") as temporary:
        places: dict[str, list[Path]] = {
            "tree": [repo / "a.txt"],
            "git": [repo / ".git" / "config"],
            "home": [home / name for name in ("notes.txt", "projects/other/README.md", ".vimrc")],
            "own": [home / ".agent" / "login.json"],
            "caches": [home / ".cache" / "pip" / "http" / "a" / "b"],
            "packages": [home / name for name in PACKAGES],
            "toolchains": [home / ".pyenv" / "version", home / ".local" / "bin" / "tool"],
            "identity": [home / ".gitconfig", home / ".config" / "git" / "ignore"],
            "credentials": [home / name for name in CREDENTIALS if name not in MASKED],
            "settings": [home / name for name in SETTINGS],
            "registries": [home / name for name in REGISTRIES],
            "maven": [home / name for name in MAVEN],
            "logins": [home / LOGIN, root / "state" / "segue.db"],
            "temporary": [Path(temporary.name)],
            "system": [Path("/etc/hostname"), Path("/etc/passwd")],
        }
        assert places.keys() == VISIBLE.keys()
        for path in (*places["tree"], *places["own"], *places["temporary"], *places["logins"]):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        yield places


def judge(
    places: dict[str, list[Path]], look: Callable[[dict[str, Path]], dict[str, tuple[str | None, bool]]]
) -> dict[str, set[str]]:
    """Return the table's words for how each place is seen, by its row and path."""
    paths = {f"{row}:{path}": path for row, listed in places.items() for path in listed}
    before = {name: path.read_bytes().decode("latin-1") for name, path in paths.items()}
    found = look({str(number): path for number, path in enumerate(paths.values())})
    return {
        name: kinds(path, before[name], found[str(number)])
        for number, (name, path) in enumerate(paths.items())
    }


def find_wrong(root: Path, sandbox: str) -> dict[str, set[str]]:
    """Return the places that a program in this sandbox does not see as the table says."""
    if sandbox == "landlock standard" and is_temporary(root):
        pytest.skip("Landlock opens /tmp with all that is below it, as this clone is")
    with list_places(root, root / "repo") as places:
        if sandbox.startswith(("bwrap", "namespaces")) and sandbox.endswith("strict"):
            places["caches"] = [root / "home" / name / "new" for name in (".npm", ".cache")]
            for path in places["caches"]:
                path.touch()
        return _differ(sandbox, judge(places, lambda paths: see(root, sandbox, paths)))


def find_wrong_in_check(root: Path, means: SealedBy) -> dict[str, set[str]]:
    """Return the same for a sealed check."""
    if means == "copy" and (is_temporary(root) or not landlock_abi()):
        pytest.skip("a copy hides by Landlock, which opens /tmp with all that is below it, as this clone is")
    project = make_project(root, means)
    with list_places(root, project.root) as places:
        seen = judge(places, lambda paths: look_in_check(project, paths))
    return _differ(f"{'landlock' if means == 'copy' else means} check", seen)


def _differ(sandbox: str, seen: dict[str, set[str]]) -> dict[str, set[str]]:
    return {name: was for name, was in seen.items() if visible_in(sandbox, name.partition(":")[0]) not in was}
