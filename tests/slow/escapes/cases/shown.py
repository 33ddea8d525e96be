"""The ways out that an audit showed."""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.slow.escapes.escape import EVERYWHERE, MOUNTS, Escape
from tests.slow.escapes.scene import Scene

ALLOW = ("-c", "protocol.file.allow=always")


def add_submodule(scene: Scene) -> None:
    """Add a submodule, checked out."""
    library = scene.root / "library"
    shutil.copytree(scene.repo, library)
    scene.place.git(*ALLOW, "submodule", "--quiet", "add", str(library), "vendor/lib")
    scene.commit()


def use_husky(scene: Scene) -> None:
    """Keep hooks in the work tree."""
    scene.write(".husky/pre-commit", "#!/bin/sh\nexit 0\n", 0o755)
    scene.place.git("config", "core.hooksPath", ".husky")
    scene.commit()


def activate(scene: Scene) -> None:
    """Activate an environment inside of the work tree."""
    (scene.repo / ".venv" / "bin").mkdir(parents=True)
    scene.place.env |= {
        "PATH": f"{scene.repo}/.venv/bin{os.pathsep}{scene.place.env['PATH']}",
        "VIRTUAL_ENV": f"{scene.repo}/.venv",
    }


def include(scene: Scene) -> None:
    """Let git's configuration include a file of the project."""
    scene.commit(**{".gitconfig": "[alias]\n\tst = status\n"})
    scene.place.git("config", "include.path", "../.gitconfig")


SETUP_TEST = """import unittest
from calc import add


class Test(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(2, 2), 4)
"""
_MAKE = f'"{sys.executable}" -m venv --without-pip .venv && .venv/bin/python setup.py'
SETUP = f"""check_setup = [['sh', '-c', '{_MAKE}']]
checks = [['env', '.venv/bin/python', '-m', 'unittest', 'discover', '-s', 'tests', '-t', '.']]
"""


def need_setup(scene: Scene) -> None:
    """Let checks run in an environment that the project's own script prepares."""
    scene.write("tests/__init__.py", "")
    scene.write("tests/test_calc.py", SETUP_TEST)
    scene.commit(
        **{"setup.py": "print('ready')\n", "calc.py": "def add(a, b):\n    raise NotImplementedError\n"}
    )
    scene.facts["work"] = {"1": {"calc.py": "def add(a, b):\n    return 0\n"}}


def is_believed(scene: Scene) -> Iterator[str]:
    """Find wrong code that counts as proven."""
    if scene.is_proven:
        yield f"wrong code is proven: {scene.card['proof']}"


WEAKER = {"require": "changed", "allow_no_change": "True", "known_failures": "anything"}


def with_settings(scene: Scene) -> None:
    """Keep settings in pyproject.toml."""
    scene.commit(**{"pyproject.toml": '[project]\nname = "app"\nversion = "1"\n'})


def is_weaker(scene: Scene) -> Iterator[str]:
    """Find settings that the agent has weakened."""
    for name, value in WEAKER.items():
        if value in (found := scene.setting(name)):
            yield f"in force: {name} = {found}"


def hide_things(scene: Scene) -> None:
    """Put sockets, keys and processes around the sandbox."""
    listen(scene, scene.home / ".docker" / "run" / "docker.sock")
    session = Path(f"/run/user/{os.getuid()}")
    with contextlib.suppress(OSError):
        if not session.exists():
            session.mkdir(mode=0o700, exist_ok=True)
            scene.stack.callback(_remove, session)
        listen(scene, session / f"bus-{scene.word}")
        scene.stack.callback((session / f"bus-{scene.word}").unlink)
        scene.place.env |= {
            "XDG_RUNTIME_DIR": str(session),
            "DBUS_SESSION_BUS_ADDRESS": f"unix:path={session}/bus-{scene.word}",
        }
    token = scene.home / ".cache" / "huggingface" / "token"
    token.parent.mkdir(parents=True)
    token.write_text(scene.word)
    victim = subprocess.Popen(["sleep", f"600.{int(scene.word[-4:], 16)}"])
    scene.stack.callback(victim.wait)
    scene.stack.callback(victim.kill)
    scene.facts |= {"nap": victim.args[1]}  # type: ignore[index]


def _remove(folder: Path) -> None:
    """Remove a folder that nobody uses."""
    with contextlib.suppress(OSError):
        folder.rmdir()


def listen(scene: Scene, path: Path) -> None:
    """Let somebody listen at a socket; a long path is reached through its folder's descriptor."""
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = os.open(path.parent, os.O_PATH)
    scene.stack.callback(os.close, folder)
    server = scene.stack.enter_context(socket.socket(socket.AF_UNIX))
    server.bind(f"/proc/self/fd/{folder}/{path.name}")
    server.listen()
    _listeners.setdefault(scene.word, []).append((path, server))
    scene.facts.setdefault("sockets", []).append(str(path))


_listeners: dict[str, list[tuple[Path, socket.socket]]] = {}


def was_called(scene: Scene) -> Iterator[str]:
    """Find sockets to which the agent has connected."""
    for path, server in _listeners.get(scene.word, []):
        if select.select([server], [], [], 0)[0]:
            yield f"connected: {path.name}"


def saw_processes(scene: Scene) -> Iterator[str]:
    """Find the command line of a process outside among what the agent took."""
    yield from was_called(scene)
    taken = b"".join(path.read_bytes() for path in scene.repo.rglob("loot.bin"))
    if str(scene.facts["nap"])[::-1].encode() in taken:
        yield "the command line of another process was read"


STRICT = "sandbox.strength = 'strict'\nchecks = [['true']]"
CONNECT = """
for path in FACTS["sockets"]:
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as client:
        folder = os.open(os.path.dirname(path), os.O_PATH)
        client.connect(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
"""


def listen_in_tmp(scene: Scene) -> None:
    """Let somebody listen two folders below the machine's /tmp, as tmux and editors do."""
    folder = Path(tempfile.mkdtemp(prefix="editor-"))
    scene.stack.callback(shutil.rmtree, folder, ignore_errors=True)
    listen(scene, folder / "ipc" / "s")
    os.utime(folder)


def is_not_said(scene: Scene) -> Iterator[str]:
    """Find views that do not say that nothing isolates the agent."""
    place, told = scene.place, re.compile(r"not isolated", re.IGNORECASE)
    views = {
        "the head of a quiet run": scene.said[0],
        "status": place.segue("status", "last", code=None).stdout,
        "the card": place.segue("proof", "last", code=None).stdout,
        "the card for a pull request": place.segue("proof", "last", "--markdown", code=None).stdout,
        "the card as JSON": place.segue("proof", "last", "--json", code=None).stdout,
    }
    yield from (f"not said: {view}" for view, text in views.items() if not told.search(text))


SHOWN = (
    Escape(
        "submodule",
        """
make_repository("vendor/lib", monitor())
""",
        prepare=add_submodule,
        named="vendor/lib|submodule",
        git=(("status",), ("diff",)),
    ),
    Escape("hook in the tree", "plant('.husky/pre-commit')", prepare=use_husky, named=r"\.husky|hook"),
    Escape(
        "program on PATH",
        "for name in ('bwrap', 'git', 'sh', 'python3', 'unshare', 'env', 'ps', 'node', 'docker'):\n"
        "    stand_in(f'.venv/bin/{name}')",
        prepare=activate,
    ),
    Escape(
        "configuration that is included",
        """
append(".gitconfig", monitor())
""",
        prepare=include,
        named=r"\.gitconfig|git configuration",
        git=(("status",),),
    ),
    Escape(
        "configuration in one line",
        """
append(".git/config", f"[user] [core] fsmonitor = {plant('.cache-index')}\\n")
""",
        means=("landlock",),
        named="git configuration",
        git=(("status",),),
    ),
    Escape("link in the place of the plan", "link('plan.md', HOME / '.bashrc')", named=r"plan\.md"),
    Escape(
        "link in the place of hooks",
        "remove('.git/hooks'); link('.git/hooks', HOME / 'notes')",
        means=("landlock",),
        named="hooks",
    ),
    Escape(
        "pipe in the place of the plan", "fifo('plan.md')", means=(*EVERYWHERE, "none"), named=r"plan\.md"
    ),
    Escape(
        "setup script",
        r'''
write("setup.py", """
import glob
place = glob.glob(".venv/lib/python*/site-packages")[0]
open(place + "/lie.pth", "w").write(%r)
""" % LIE)
''',
        prepare=need_setup,
        gains=is_believed,
        settings=SETUP,
    ),
    Escape(
        "settings in another spelling",
        """
append("pyproject.toml", '''
# [tool.segue
[tool]
segue = {require = "changed", allow_no_change = true, known_failures = ["anything"]}
''')
""",
        prepare=with_settings,
        gains=is_weaker,
        named="settings|tool.segue|pyproject",
    ),
    Escape(
        "sockets, keys and processes",
        CONNECT
        + """
for name in (".ssh/id_ed25519", ".aws/credentials"):
    with contextlib.suppress(OSError):
        os.chmod(HOME / name, 0o777)
    with contextlib.suppress(OSError):
        os.utime(HOME / name, (1, 1))
    with contextlib.suppress(OSError):
        os.setxattr(HOME / name, "user.mine", b"x")
take(HOME / ".cache/huggingface/token", *Path("/proc").glob("[0-9]*/cmdline"))
""",
        means=(*MOUNTS, "lanes"),
        prepare=hide_things,
        gains=saw_processes,
    ),
    # The table of docs/guides/sandbox.md says what else Landlock does not stop.
    Escape(
        "sockets in temporary folders",
        CONNECT,
        means=("bwrap",),
        prepare=listen_in_tmp,
        gains=was_called,
    ),
    Escape("no sandbox", "", means=("none",), args=("--quiet",), gains=is_not_said),
)
