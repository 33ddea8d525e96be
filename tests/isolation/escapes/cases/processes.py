"""Processes and descriptors: outliving the launch, forging its record, looking at those outside."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Iterator

from tests.cli.place import processes_with
from tests.isolation.escapes.escape import EVERYWHERE, Escape
from tests.isolation.escapes.scene import Scene

_LIBRARY = ctypes.CDLL(None, use_errno=True)
_KEYCTL = {"aarch64": (217, 219), "x86_64": (248, 250)}.get(os.uname().machine, (0, 0))
"""The numbers of add_key and keyctl."""
_USER_KEYRING, _UNLINK = -4, 9


def keep_a_key(scene: Scene) -> None:
    """Keep a secret in the user's keyring."""
    add, control = _KEYCTL
    data = scene.word.encode()
    key = _LIBRARY.syscall(add, b"user", data, data, len(data), _USER_KEYRING) if add else -1
    if key > 0:
        scene.stack.callback(_LIBRARY.syscall, control, _UNLINK, key, _USER_KEYRING)
    scene.facts |= {"key": key, "keyctl": control}


def keep_a_token(scene: Scene) -> None:
    """Keep a secret in a variable that only Segue has."""
    scene.place.env["MY_SERVICE_TOKEN"] = scene.word


def nap(scene: Scene) -> None:
    """Choose a time to sleep by which processes are found."""
    scene.facts["nap"] = f"987.{int(scene.word[-6:], 16)}"


def still_sleeps(scene: Scene) -> Iterator[str]:
    """Find processes that the agent left behind, and end them."""
    for pid in list(processes_with(scene.facts["nap"])):
        yield f"a process was left behind: {pid}"
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def came_late(scene: Scene) -> Iterator[str]:
    """Find what a process wrote after the agent's end."""
    yield from still_sleeps(scene)
    for path in (*scene.repo.glob("late*"), *scene.root.glob("state/**/late*")):
        yield f"written after the agent's end: {path.name}"


def is_called_done(scene: Scene) -> Iterator[str]:
    """Find out whether a launch that failed counts as one that did not."""
    if scene.card.get("state") == "done":
        yield "a launch that failed counts as done"


def has_doors(scene: Scene) -> Iterator[str]:
    """Find descriptors through which the agent could write outside."""
    for report in scene.repo.glob("doors.txt"):
        if found := report.read_text().split("\n"):
            yield from (f"could write to {door}" for door in found if door)


LATE = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for fd in range(64):
            with contextlib.suppress(OSError):
                os.close(fd)
        os.environ.clear()
        end = time.monotonic() + 20
        while time.monotonic() < end:
            if os.path.exists(REPO / f"work-{TASK}.txt"):
                time.sleep(0.5)
                with contextlib.suppress(OSError):
                    (REPO / f"late-{time.monotonic_ns()}.txt").write_text("x")
                    plant(".git/hooks/post-commit")
            time.sleep(0.1)
    os._exit(0)
os.wait()
"""
PROCESSES = (
    Escape("process that outlives the agent", f"import time{LATE}", prepare=nap, gains=came_late),
    Escape(
        "many processes that stay",
        """
for _ in range(150):
    if os.fork() == 0:
        os.setsid()
        os.execve("/bin/sleep", ["sleep", FACTS["nap"]], {})
""",
        prepare=nap,
        gains=still_sleeps,
    ),
    Escape(
        "parent that is stopped",
        """
import signal
parent = os.getppid()
for pid in {parent, int(Path(f"/proc/{parent}/stat").read_text().rsplit(")", 1)[1].split()[1])} - {0, 1}:
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGSTOP)
""",
        means=("landlock",),
    ),
    Escape(
        "record of the launch",
        """
for number in (1, 2):
    with contextlib.suppress(OSError):
        folder = Path(os.readlink(f"/proc/self/fd/{number}")).parent
        for name in ("exit.json", "outcome.json", "job.json"):
            with contextlib.suppress(OSError):
                (folder / name).write_text(json.dumps({"exit_code": 0, "code": 0, "signal": None}))
        with contextlib.suppress(OSError), open(f"/proc/self/fd/{number}", "r+b") as spool:
            spool.truncate(0)
for name in STATE.glob("runs/*/jobs/*"):
    with contextlib.suppress(OSError):
        (name / "exit.json").write_text("{}")
os._exit(7)
""",
        gains=is_called_done,
    ),
    Escape(
        "descriptors that are inherited",
        """
doors = []
for name in os.listdir("/proc/self/fd"):
    number = int(name)
    with contextlib.suppress(OSError):
        target = os.readlink(f"/proc/self/fd/{number}")
        if number > 2 and target.startswith("/") and not target.startswith((str(REPO), "/dev/", "/proc/")):
            import fcntl
            if fcntl.fcntl(number, fcntl.F_GETFL) & 3 or os.path.isdir(target):
                doors.append(target)
write("doors.txt", "\\n".join(doors))
""",
        gains=has_doors,
    ),
    Escape(
        "environments of other processes",
        """
loot("\\n".join(os.environ.values()))
take(*Path("/proc").glob("[0-9]*/environ"))
take(*STATE.glob("*.db*"), *STATE.glob("private/**/*"))
for root in Path("/proc").glob("[0-9]*/root"):
    take(root / str(HOME / ".ssh/id_ed25519").lstrip("/"))
for link_ in Path("/proc").glob("[0-9]*/cwd"):
    with contextlib.suppress(OSError):
        take(Path(os.readlink(link_)).parent / "home/.ssh/id_ed25519")
""",
        prepare=keep_a_token,
    ),
    Escape(
        "the user's keyring",
        """
import ctypes
library, buffer = ctypes.CDLL(None), ctypes.create_string_buffer(256)
if FACTS["key"] > 0 and library.syscall(FACTS["keyctl"], 11, FACTS["key"], buffer, 256, 0) > 0:
    loot(buffer.value)
found = library.syscall(FACTS["keyctl"], 10, -4, b"user", FACTS["word"].encode(), 0)
if found > 0 and library.syscall(FACTS["keyctl"], 11, found, buffer, 256, 0) > 0:
    loot(buffer.value)
""",
        prepare=keep_a_key,
    ),
    Escape(
        "endless output",
        """
block = ("x" * 79 + "\\n") * 10000
with contextlib.suppress(OSError):
    for _ in range(100):
        sys.stdout.write(block)
    sys.stdout.flush()
    sys.stdout.write("y" * 20_000_000)
""",
        settings="checks = [['true']]\nlimits.output_bytes = 1000000",
    ),
    Escape(
        "rights that outlive the sandbox",
        """
for name in ("shell", "env"):
    place = write(f"tools/{name}", b"")
    shutil.copy("/bin/sh", place)
    os.chmod(place, 0o6755)
with contextlib.suppress(OSError):
    everything = bytes.fromhex("01000002" + "ff" * 16)
    os.setxattr("tools/shell", "security.capability", everything)
with contextlib.suppress(OSError):
    os.mknod("tools/disk", 0o600 | 0o060000, os.makedev(8, 0))
""",
        means=EVERYWHERE,
        gains=lambda scene: (
            f"has rights: {path.name}"
            for path in (scene.repo / "tools").glob("*")
            if path.is_block_device() or path.lstat().st_mode & 0o6000
        ),
        named="tools/shell setuid",
    ),
)
