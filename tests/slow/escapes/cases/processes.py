"""Processes and descriptors: outliving the launch, forging its record, looking at those outside."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator

from tests.cli.place import processes_with
from tests.slow.escapes.escape import Escape
from tests.slow.escapes.scene import Scene

_USER_KEYRING, _UNLINK = -4, 9


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
)
