"""What keeps the processes of one job together on Linux, so that none gets away as a daemon.

Every process of a job has a brand: its soft limit of file locks, which children inherit, which /proc shows,
and which Linux does not enforce. A daemon that leaves its session and empties its environment still has it.
Where control groups may be made, a job is in one of its own as well, and the kernel kills all of it at once.
"""

# The supervisor imports this, and pathlib would cost it start-up time.
# ruff: noqa: PTH102, PTH106, PTH120, PTH123, PTH208
from __future__ import annotations

import contextlib
import os
import sys
from functools import cache

from segue.system.identity import read_raw, start_time
from segue.system.process.group import portable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, ClassVar

_FILE_LOCKS = 10
"""RLIMIT_LOCKS, which Python does not name."""
_SMALLEST, _LARGEST = 1 << 40, 1 << 62


class Container:
    """The control group and the brand of one job; either may be missing."""

    inside: ClassVar[str | None] = None
    """The control group of a job that this process is in; None: it is where it was started."""

    def __init__(self, cgroup: str | None = None, brand: int | None = None) -> None:
        self.cgroup, self.brand = cgroup, brand

    @classmethod
    def create(cls) -> Container:
        """Make what this machine permits."""
        brand = _SMALLEST + int.from_bytes(os.urandom(7), "big")
        return cls(None if portable() else _make_cgroup(), brand if may_brand() else None)

    @classmethod
    def of(cls, claim: dict[str, Any]) -> Container:
        """Return the container that a supervisor noted when it took a job."""
        return cls(claim.get("cgroup"), claim.get("brand"))

    def facts(self) -> dict[str, Any]:
        """Return what `of` needs."""
        return {"cgroup": self.cgroup, "brand": self.brand}

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Start the job's process in here: it is inside before it runs, so nothing it starts is outside."""
        self.enter()
        with _branded(self.brand):
            yield

    def enter(self) -> None:
        """Move this process inside. The kernel may take ten milliseconds for it, so nobody should wait."""
        if self.cgroup and Container.inside != self.cgroup:
            if _move(self.cgroup):
                Container.inside = self.cgroup
            else:
                self.remove()

    def leave(self) -> None:
        """Move this process back to where it was started, if it is inside."""
        if self.cgroup and Container.inside == self.cgroup and _move(os.path.dirname(self.cgroup)):
            Container.inside = None

    def members(self) -> set[int]:
        """Return the living processes inside, without this one."""
        found = _branded_as(self.brand) if self.brand else set()
        for place in _with_inner(self.cgroup) if self.cgroup else ():
            found |= {int(pid) for pid in read_raw(f"{place}/cgroup.procs").split()}
        return {pid for pid in found - {os.getpid()} if start_time(pid) is not None}

    def contains(self, pid: int) -> bool:
        """Return whether a process is inside."""
        if self.brand and _brand_of(str(pid)) == str(self.brand).encode():
            return True
        places = _with_inner(self.cgroup) if self.cgroup else ()
        return any(str(pid).encode() in read_raw(f"{place}/cgroup.procs").split() for place in places)

    def kill(self) -> None:
        """Have the kernel kill everything else in the control group, if there is one."""
        if not self.cgroup:
            return
        others = set(read_raw(f"{self.cgroup}/cgroup.procs").split()) - {str(os.getpid()).encode()}
        if not others and b"nr_descendants 0" in read_raw(f"{self.cgroup}/cgroup.stat"):
            return
        self.leave()
        if Container.inside != self.cgroup:
            _write(f"{self.cgroup}/cgroup.kill", b"1")

    def remove(self) -> None:
        """Remove the control group, which is empty but for this process."""
        self.leave()
        for place in reversed(_with_inner(self.cgroup) if self.cgroup else []):
            with contextlib.suppress(OSError):
                os.rmdir(place)


def own_cgroup() -> str | None:
    """Return the folder of this process's control group (version 2), if it is mounted."""
    path = next((line[3:] for line in read_raw("/proc/self/cgroup").split(b"\n") if line[:3] == b"0::"), b"")
    mount = _mounted()
    if not path or b"/.." in path or mount is None:
        return None
    root, place = mount
    inside = path.removeprefix(root) if root != b"/" else path
    return os.fsdecode(place + b"/" + inside.strip(b"/")).rstrip("/")


@cache
def _mounted() -> tuple[bytes, bytes] | None:
    """Return which part of the control groups (version 2) is mounted, and where."""
    for line in read_raw("/proc/self/mountinfo").split(b"\n"):
        mount, _, kind = line.partition(b" - ")
        if kind.startswith(b"cgroup2 "):
            root, place = mount.split()[3:5]
            return root, place
    return None


def containment() -> tuple[str, str]:
    """Return what contains jobs on this machine, and how to get more, if there is more."""
    if sys.platform != "linux":
        return ("a job object" if sys.platform == "win32" else "the process tree"), ""
    container = Container.create()
    container.remove()
    if container.cgroup:
        return "a control group per agent", ""
    better = "For a control group per agent, start Segue with: systemd-run --user --scope segue …"
    return ("marked processes" if container.brand else "the process tree"), better


def _make_cgroup() -> str | None:
    inside = Container.inside
    home = os.path.dirname(inside) if inside else None
    if not inside and sys.platform == "linux":
        home = own_cgroup()
    place = f"{home}/segue-{os.getpid()}-{os.urandom(8).hex()}"
    try:
        if home:
            _sweep_once(home)
            os.mkdir(place)
    except OSError:
        return None
    if home and os.access(f"{place}/cgroup.kill", os.W_OK) and os.access(f"{home}/cgroup.procs", os.W_OK):
        return place
    Container(place if home else None).remove()
    return None


@cache
def _sweep_once(home: str) -> None:
    """Remove what killed supervisors left empty; the system refuses to remove what is in use."""
    for name in os.listdir(home):
        maker = name.split("-")[1] if name.startswith("segue-") and name.count("-") == 2 else ""
        if maker.isdigit() and start_time(int(maker)) is None:
            Container(f"{home}/{name}").remove()


def may_brand() -> bool:
    """Return whether processes of this machine can be branded."""
    if sys.platform != "linux":
        return False
    import resource

    most = resource.getrlimit(_FILE_LOCKS)[1]
    return most == resource.RLIM_INFINITY or most > _LARGEST


@contextlib.contextmanager
def _branded(brand: int | None) -> Iterator[None]:
    if brand is None or sys.platform != "linux":
        yield
        return
    import resource

    before = resource.getrlimit(_FILE_LOCKS)
    resource.setrlimit(_FILE_LOCKS, (brand, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(_FILE_LOCKS, before)


def _branded_as(brand: int) -> set[int]:
    known = str(brand).encode()
    return {int(pid) for pid in os.listdir("/proc") if pid.isdigit() and _brand_of(pid) == known}


def _brand_of(pid: str) -> bytes:
    limits = read_raw(f"/proc/{pid}/limits")
    start = limits.find(b"Max file locks")
    return limits[start:].split(None, 4)[3] if start >= 0 else b""


def _with_inner(cgroup: str) -> list[str]:
    """Return a control group and those inside it, which the agent may have made."""
    return [place for place, _, _ in os.walk(cgroup)]


def _move(cgroup: str) -> bool:
    return _write(f"{cgroup}/cgroup.procs", b"0")


def _write(path: str, data: bytes) -> bool:
    try:
        with open(path, "wb", buffering=0) as file:
            file.write(data)
    except OSError:
        return False
    return True
