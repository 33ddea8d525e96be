"""The sandbox by bubblewrap: a command line of mounts and namespaces, and whether that works here."""

# Folders of somebody else cannot be looked into; pathlib would raise an error.
# ruff: noqa: PTH110, PTH112
from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cache
from pathlib import Path

from msgspec import Struct

from segue.system import programs
from segue.system.files import private_folder
from segue.system.process.capture import PROBE_SECONDS, Captured, probe
from segue.system.sandbox.places import (
    SHARED,
    SHOWN_IN_RUN,
    SOCKETS,
    TEMPORARY,
    named_places,
    outermost,
    program_places,
)
from segue.system.sandbox.policy import GIT_FOLDER, SandboxPolicy, git_link

CONTAINED = ("--unshare-user", "--cap-drop", "ALL", "--unshare-ipc", "--unshare-uts", "--die-with-parent")
"""As root, bwrap keeps all capabilities unless they are dropped."""
INSTALL = "Install bubblewrap, e.g. apt install bubblewrap"
_NO_NESTING = ("--disable-userns",)


class BubblewrapTrial(Struct, frozen=True):
    """Whether bubblewrap works here, as it was tried out."""

    works: bool
    own_proc: bool = False
    """Whether it can have a process table of its own; containers often forbid that."""
    why: str = ""
    """What is missing."""
    fix: str = ""


def wrap(argv: Sequence[str], policy: SandboxPolicy, env: Mapping[str, str], own_proc: bool) -> list[str]:
    """Return the command that runs `argv` under the policy; its environment is the caller's."""
    line = [programs.need("bwrap"), "--ro-bind", "/", "/", "--dev", "/dev"]
    line += [*proc_mounts(own_proc), *CONTAINED, "--new-session", *(_NO_NESTING if policy.is_strict else ())]
    line += [] if policy.network else ["--unshare-net"]
    own = dict(_own_folders(policy))
    for place, source in own.items():
        line += ["--bind", str(source), str(place)]
    rules = _rules(argv, policy, env, list(own))
    if policy.seen_at is not None:
        rules = _with_lane(rules, policy, policy.seen_at)
    # From the outside in, so that the innermost rule about a place counts.
    for place in sorted(rules, key=lambda path: len(path.parts)):
        line += rules[place]
    for place, words in rules.items():
        line += ["--remount-ro", str(place)] if words[0] == "--tmpfs" else []
    return [*line, "--chdir", str(policy.seen_at or policy.root), "--", *argv]


def proc_mounts(own_proc: bool) -> list[str]:
    """Return how /proc is shown: of its own, or the machine's.

    The files below /proc/sys belong to root, who could rule the kernel with them even without capabilities.
    """
    if own_proc:
        return ["--proc", "/proc", *(["--remount-ro", "/proc"] if is_root() else []), "--unshare-pid"]
    return ["--ro-bind" if is_root() else "--bind", "/proc", "/proc"]


def is_root() -> bool:
    """Return whether Segue runs as root."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


def layers(own_proc: bool) -> int:
    """Return how many processes of the sandbox are above the program."""
    return 2 if own_proc else 1


def hide(place: Path, seen_at: Path | None = None) -> list[str]:
    """Return the mount that covers a place, where it is or is seen."""
    target = str(seen_at or place)
    return ["--tmpfs", target] if os.path.isdir(place) else ["--ro-bind", "/dev/null", target]


def _own_folders(policy: SandboxPolicy) -> Iterator[tuple[Path, Path]]:
    """Yield the places of the machine that the launch has as folders of its own, and those folders."""
    for name in TEMPORARY:
        real = Path(os.path.realpath(name))
        if os.path.isdir(real):
            yield real, private_folder(policy.scratch / name.strip("/").replace("/", "-"))
    if policy.is_strict and policy.home != Path("/"):
        yield policy.home, private_folder(policy.scratch / "home")


def _rules(
    argv: Sequence[str], policy: SandboxPolicy, env: Mapping[str, str], own: Sequence[Path]
) -> dict[Path, list[str]]:
    """Return the mounts by place; of two rules about a place the last one counts."""
    covered = (*own, *SHARED, *policy.hide)
    wanted = [place for place in (*program_places(argv, env), *policy.read) if _is_inside(place, covered)]
    # What the command only names is no reason to show a secret.
    named = named_places(argv, env, (policy.root, policy.scratch))
    wanted += [
        place for place in named if _is_inside(place, (*own, *SHARED)) and not _is_inside(place, policy.hide)
    ]
    writable = (policy.root, *policy.write)
    shown = [place for place in outermost(wanted) if not _is_inside(place, writable)]
    asked = {place: _read(place) for place in (*shown, *_needed_in_run(policy.network))}
    for place in policy.write:
        asked[place] = ["--dev-bind" if place.is_relative_to("/dev") else "--bind", str(place), str(place)]
    asked[policy.root] = ["--bind" if policy.edits else "--ro-bind", str(policy.root), str(policy.root)]
    asked |= {place: _read(place) for place in policy.guard}
    closed = {*own, *policy.hide}
    hidden = {
        place: hide(place)
        for place in policy.hide
        if (place not in own and not _is_inside(place.parent, closed)) or _is_inside(place, asked.keys())
    }
    return {**hidden, **asked}


def _with_lane(rules: dict[Path, list[str]], policy: SandboxPolicy, home: Path) -> dict[Path, list[str]]:
    """Show a lane in the place of the user's work tree as well, with what it shares.

    Its `.git` names a folder in the user's `.git`, which is covered by that: git's folder is shown elsewhere.
    """
    lane, link = policy.root, policy.scratch / "git-link"
    common, text = git_link(lane)
    link.write_text(text)
    seen = {place: words for place, words in rules.items() if not place.is_relative_to(home)}
    seen |= {
        home / place.relative_to(lane): [words[0], words[1], str(home / place.relative_to(lane))]
        for place, words in rules.items()
        if place.is_relative_to(lane) and len(words) == 3
    }
    seen[GIT_FOLDER] = ["--ro-bind", str(common), str(GIT_FOLDER)]
    hidden = [
        place.relative_to(home) for place in policy.hide if place.is_relative_to(home) and place != home
    ]
    closed = [path for path in hidden if (lane / path).exists()]
    for tree in (lane, home):
        seen[tree / ".git"] = ["--ro-bind", str(link), str(tree / ".git")]
        seen |= {tree / path: ["--ro-bind", str(home / path), str(tree / path)] for path in policy.shared}
        seen |= {tree / path: hide(lane / path, tree / path) for path in closed}
    return seen


def _needed_in_run(network: bool) -> list[Path]:
    names = [Path(os.path.realpath("/etc/resolv.conf"))] if network else []
    return [place for place in (*names, *map(Path, SHOWN_IN_RUN)) if os.path.exists(place)]


def _read(place: Path) -> list[str]:
    return ["--ro-bind-try", str(place), str(place)]


def _is_inside(place: Path, others: Iterable[Path]) -> bool:
    around = others if isinstance(others, Set) else {*others}
    return not around.isdisjoint((place, *place.parents))


@cache
def try_bubblewrap() -> BubblewrapTrial:
    """Try the whole line, then the one for containers, whose /proc cannot be mounted; asked once."""
    if not sys.platform.startswith("linux"):
        return BubblewrapTrial(False, why="bubblewrap exists on Linux only")
    if programs.find("bwrap") is None:
        inside = programs.find_inside("bwrap")
        why = programs.describe_missing("bwrap") if inside else "bubblewrap (bwrap) is not installed"
        return BubblewrapTrial(False, why=why, fix=INSTALL)
    full = _try(own_proc=True)
    if full is not None and full.exit_code == 0:
        return BubblewrapTrial(True, own_proc=True)
    if full is not None and not full.in_time:
        why = f"bubblewrap did not answer within {PROBE_SECONDS:g} s"
        return BubblewrapTrial(False, why=why, fix="Try again when the machine is less busy")
    shared = _try(own_proc=False)
    if shared is not None and shared.exit_code == 0:
        why = "the process table is shared, because /proc cannot be mounted here"
        return BubblewrapTrial(True, why=why, fix="In a container, start it with --security-opt unmask=ALL")
    answer = full.said if full is not None else "no answer"
    return BubblewrapTrial(False, why=f"bubblewrap does not work here ({answer})", fix=_name_fix())


def _try(*, own_proc: bool) -> Captured | None:
    hidden = [part for place in (SOCKETS, *TEMPORARY) for part in ("--tmpfs", os.path.realpath(place))]
    line = [programs.need("bwrap"), "--ro-bind", "/", "/", "--dev", "/dev", *proc_mounts(own_proc), *hidden]
    return probe([*line, *CONTAINED, *_NO_NESTING, "--new-session", "--unshare-net", "--", "/bin/true"])


def _name_fix() -> str:
    """Return what lets bubblewrap work, as far as the kernel's settings tell."""
    if _sysctl("kernel/apparmor_restrict_unprivileged_userns") == "1":  # Ubuntu 24.04
        return "Allow user namespaces: sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0"
    if _sysctl("kernel/unprivileged_userns_clone") == "0":
        return "Allow user namespaces: sudo sysctl kernel.unprivileged_userns_clone=1"
    return "In a container, start it with --security-opt seccomp=unconfined --security-opt unmask=ALL"


def _sysctl(name: str) -> str:
    try:
        return Path("/proc/sys", name).read_text().strip()
    except OSError:
        return ""
