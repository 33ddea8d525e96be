"""Find the programs that Segue starts itself, and keep out of their sight what an agent can write.

An agent can write its work tree, and what else the sandbox gives to it. Who has activated an environment
there has such a folder on PATH. Agents and checks get the user's whole environment, inside of the sandbox.
Segue itself, and every program that it starts outside, gets one without those places.
"""

# Every command begins with this, and pathlib would cost start-up time.
# ruff: noqa: PTH103, PTH110, PTH111, PTH118, PTH120, PTH123, PTH208
from __future__ import annotations

import contextlib
import os
import sys

from segue.system.reach import Reach, cut_variables, here, tree_around

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

CHILD = "--segue-child"
"""Makes a one-file build run `main`, or another function, of the module that follows: `MODULE[:NAME]`."""
INSIDE = "SEGUE_INSIDE"
"""Tells a Segue that is started by another one what was cut from its environment, as JSON."""
_MOST_RECORDED = 200


class _Process:
    """What is known in this process."""

    def __init__(self) -> None:
        self.given: dict[str, None] = {}
        self.reach: Reach | None = None
        self.whole: dict[str, str] = {}
        """Variables as the user has set them, and"""
        self.cut: dict[str, str] = {}
        """as they were cut in this process; empty if they were removed."""
        self.searched: list[str] = []
        """Where Python looks for modules first, because the user says so."""
        self.bytecode: str | None = None
        """Where Python keeps compiled modules, if the user has chosen a place."""
        self.is_settled = False
        self.recorded: set[str] = set()
        self.records = True


_process = _Process()


def settle() -> None:
    """Cut the environment of this process, which is Segue's own: call it first.

    From then on nothing that is started or imported by name here, also by a library, comes from an agent.
    """
    import json

    with contextlib.suppress(ValueError):
        _process.whole = {**json.loads(os.environ.pop(INSIDE, "{}"))}
    _process.cut = {name: os.environ.get(name, "") for name in _process.whole}
    _process.is_settled = True
    given = {"", here(), *os.environ.get("PYTHONPATH", "").split(os.pathsep)}
    own = _package()
    sys.path[:] = [
        place
        for place in sys.path
        if place not in given or os.path.realpath(place) == own or (place and not reach().has(place))
    ]
    _process.searched = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
    _process.bytecode = sys.pycache_prefix
    if own_bytecode() is not None:
        sys.pycache_prefix = None
    _apply()


def keep_out(places: Iterable[str | os.PathLike[str]]) -> None:
    """Start nothing from these places any more, which agents of this command can write."""
    new = [place for one in places if (place := os.fspath(one)) not in _process.given]
    if new:
        _process.given |= dict.fromkeys(new)
        _process.reach = None
        _apply()


def _apply() -> None:
    """Cut the variables of this process, if it is Segue's own."""
    if not _process.is_settled:
        return
    whole, cut = whole_environment(), _cut_environment()
    _process.whole = {name: value for name, value in whole.items() if cut.get(name) != value}
    _process.cut = {name: cut.get(name, "") for name in _process.whole}
    for name, value in _process.cut.items():
        if value:
            os.environ[name] = value
        else:
            os.environ.pop(name, None)


def record_nothing() -> None:
    """Leave no record of this process: its agents are simulated, and what they write is thrown away."""
    _process.records = False


def record(places: Iterable[str | os.PathLike[str]]) -> None:
    """Remember that agents can write these places, also for the commands that follow.

    A home is not remembered: somebody whose home is a work tree has their own programs there. Nor is anything
    where Segue is part of another program, whose environment is not ours to cut.
    """
    if not _process.records or not _process.is_settled:
        return
    wanted = {*map(os.path.realpath, places)} - _process.recorded
    keep_out(wanted)
    _process.recorded |= wanted
    home = os.path.realpath(os.path.expanduser("~")) + os.sep
    known = _read_record() if wanted else []
    new = [place for place in wanted.difference(known) if not home.startswith(place + os.sep)]
    if not new:
        return
    if len(known) > _MOST_RECORDED:
        new = [place for place in (*known, *new) if os.path.exists(place)]
    with contextlib.suppress(OSError):  # a home that cannot be written
        os.makedirs(os.path.dirname(_record_place()), 0o700, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if len(known) > _MOST_RECORDED else os.O_APPEND)
        handle = os.open(_record_place(), flags | getattr(os, "O_NOFOLLOW", 0), 0o600)
        try:
            os.write(handle, b"".join(os.fsencode(place) + b"\0" for place in new))
        finally:
            os.close(handle)


def _record_place() -> str:
    if sys.platform in ("win32", "darwin"):
        import platformdirs

        return os.path.join(platformdirs.user_state_dir("segue", appauthor=None), "written-by-agents")
    base = os.environ.get("XDG_STATE_HOME", "").strip() or os.path.expanduser("~/.local/state")
    return os.path.join(base, "segue", "written-by-agents")


def _read_record() -> list[str]:
    try:
        with open(_record_place(), "rb") as file:
            return [os.fsdecode(place) for place in file.read().split(b"\0") if place]
    except OSError:
        return []


def reach() -> Reach:
    """Return what agents can write: the work tree around the current folder, and all that was named."""
    if _process.reach is None:
        tree = tree_around(here())
        _process.reach = Reach([*([tree] if tree else []), *_process.given, *_read_record()])
    return _process.reach


def whole_environment() -> dict[str, str]:
    """Return the environment that the user has given to Segue: for what runs inside of the sandbox."""
    whole, cut = _process.whole, _process.cut
    return {**os.environ, **{name: whole[name] for name in cut if os.environ.get(name, "") == cut[name]}}


def _cut_environment() -> dict[str, str]:
    """Return the environment for the outside: what was cut before, also by another Segue, stays cut."""
    return cut_variables(dict(os.environ), reach())


def segue_environment() -> dict[str, str]:
    """Return the environment for another Segue: cut, with what was cut beside it, for its own agents."""
    import json

    whole, cut = whole_environment(), _cut_environment()
    inside = {name: value for name, value in whole.items() if cut.get(name) != value}
    return {**cut, INSIDE: json.dumps(inside)} if inside else cut


def outside_path() -> str:
    """Return PATH without what agents can write."""
    return reach().cut_variable("PATH", os.environ.get("PATH") or os.defpath)


def find(name: str) -> str | None:
    """Return the program of a name that Segue itself may start; None if there is none."""
    if os.path.dirname(name):
        return None if reach().has(name) else find_inside(name)
    return reach().find(name, outside_path())


def need(name: str) -> str:
    """Return the program of a name that Segue itself may start; raises ToolMissing."""
    if (found := find(name)) is not None:
        return found
    from segue.domain.errors import ToolMissing

    raise ToolMissing(f"{describe_missing(name)}.", hint=f"Install {name}, or put its folder on PATH.")


def describe_missing(name: str) -> str:
    """Say that there is no such program, or that it is nowhere but where agents can write."""
    inside = find_inside(name)
    if inside is None:
        return f"{name} cannot be found"
    return f"{name} is in {os.path.dirname(inside)} alone, where agents can write: it is not started outside"


def find_inside(name: str, path: str | None = None) -> str | None:
    """Return the program of a name that agents and checks find; do not start it outside of the sandbox."""
    import shutil

    return shutil.which(name, path=whole_environment().get("PATH") if path is None else path)


def own_prefix() -> str | None:
    """Return what Segue was installed into, or its one file, if agents can write that."""
    is_frozen = getattr(sys, "frozen", False)
    installed = not is_frozen and any(name.endswith(".dist-info") for name in _names(_package()))
    places = [sys.executable] if is_frozen else [sys.prefix, *([_package()] if installed else [])]
    return next((os.path.realpath(place) for place in places if reach().has(place)), None)


def own_bytecode() -> str | None:
    """Return where the compiled modules of Segue itself are, if the user has chosen what agents can write."""
    place = _process.bytecode
    return os.path.realpath(place) if place and reach().has(place) else None


def own_search() -> str | None:
    """Return where Python looks for modules before this program can refuse it, if agents can write there."""
    own = _package()
    places = (place for place in _process.searched if os.path.realpath(place) != own and reach().has(place))
    return next(map(os.path.realpath, places), None)


def own_source() -> str | None:
    """Return the folder of Segue's own source, if it is used from there and agents can write it."""
    package = _package()
    installed = any(name.endswith(".dist-info") for name in _names(package))
    return None if installed or getattr(sys, "frozen", False) or not reach().has(package) else package


def _package() -> str:
    """Return the folder that contains the package of Segue."""
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
