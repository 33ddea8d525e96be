"""The sandbox by namespaces and mounts of our choice, as a command line of bubblewrap or `namespaces.py`."""

# Folders of somebody else cannot be looked into; pathlib would raise an error.
# ruff: noqa: PTH110, PTH112
from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cache
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from segue.system import programs
from segue.system.isolation import landlock
from segue.system.isolation.places import SHARED, SHOWN_IN_RUN, named_places, outermost, program_places
from segue.system.isolation.policy import GIT_FOLDER, TEMPORARY, SandboxPolicy, git_link, shown_temporary
from segue.system.process.capture import PROBE_SECONDS, Captured, capture, probe
from segue.system.process.segue import part_command
from segue.system.supervisor.job import STARTS, gave_up

CONTAINED = ("--unshare-user", "--cap-drop", "ALL", "--unshare-ipc", "--unshare-uts", "--die-with-parent")
"""As root, bwrap keeps all capabilities unless they are dropped."""
_NO_NESTING = ("--disable-userns",)


class MounterFound(Struct, frozen=True):
    """Whether a program that mounts works here, as it was tried out."""

    works: bool
    own_proc: bool = False
    """Whether it can have a process table of its own; containers often forbid that."""
    why: str = ""
    """What is missing."""
    fix: str = ""
    in_time: bool = True
    """False if it did not answer in time, which says nothing about the next time."""


def mounter(bubblewrap: bool) -> list[str]:
    """Return the program that mounts: bubblewrap, or our own, which needs nothing installed."""
    return [programs.need("bwrap")] if bubblewrap else part_command("segue.system.isolation.namespaces")


def wrap(
    program: Sequence[str], argv: Sequence[str], policy: SandboxPolicy, env: Mapping[str, str], own_proc: bool
) -> list[str]:
    """Return the command that runs `argv` under the policy; its environment is the caller's."""
    line = [*filtered(program, policy.scratch), "--ro-bind", "/", "/", "--dev", "/dev"]
    line += [*proc_mounts(own_proc), *CONTAINED, "--new-session", *(_NO_NESTING if policy.is_strict else ())]
    line += [] if policy.network else ["--unshare-net"]
    own = dict(_own_folders(policy))
    for place, source in own.items():
        line += ["--bind", str(source), str(place)]
    rules = _rules(argv, policy, env, list(own))
    # From the outside in, so that the innermost rule about a place counts.
    for place in sorted(rules, key=lambda path: len(path.parts)):
        line += rules[place]
    for place, words in rules.items():
        line += ["--remount-ro", str(place)] if words[0] == "--tmpfs" else []
    return [*line, "--chdir", str(policy.seen_at or policy.root), "--", *argv]


def filtered(program: Sequence[str], folder: Path) -> list[str]:
    """Return the program that mounts, with a filter of system calls that is written to the folder."""
    if not landlock.has_filters():
        return [*program]
    file = _make(folder) / "filter"
    file.write_bytes(landlock.make_filter(sockets=True))
    return ["/bin/sh", "-c", 'exec "$@" 9< "$0"', str(file), *program, "--seccomp", "9"]


async def capture_mounted(
    argv: Sequence[str], cwd: Path, env: Mapping[str, str] | None = None, *, timeout: float, limit: int
) -> Captured:
    """Run a tool in the sandbox to its end; where that gave up before the tool began, start it again."""
    for _ in range(STARTS):
        done = await capture(argv, cwd, env, timeout, limit=limit)
        if not done.exit_code or not gave_up(done.out, done.err):
            break
    return done


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


def _own_folders(policy: SandboxPolicy) -> Iterator[tuple[Path, Path]]:
    """Yield the places of the machine that the launch has as folders of its own, and those folders."""
    for name in TEMPORARY:
        real = Path(os.path.realpath(name))
        if os.path.isdir(real):
            yield real, _make(policy.scratch / name.strip("/").replace("/", "-"))
    if policy.is_strict and policy.home != Path("/"):
        yield policy.home, _make(policy.scratch / "home")


def _make(folder: Path) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _rules(
    argv: Sequence[str], policy: SandboxPolicy, env: Mapping[str, str], own: Sequence[Path]
) -> dict[Path, list[str]]:
    """Return the mounts by place; of two rules about a place the last one counts."""
    seen: dict[Path, list[str]] = {}
    if not policy.is_strict:
        seen |= {place: _read(place) for folder in own for place in shown_temporary(folder)}
    covered = (*own, *SHARED, *policy.hide)
    writable = (policy.root, *policy.write)
    wanted = [place for place in (*program_places(argv, env), *policy.read) if _is_inside(place, covered)]
    # What the command only names is no reason to show a secret.
    named = named_places(argv, env, (policy.root, policy.scratch))
    wanted += [
        place for place in named if _is_inside(place, (*own, *SHARED)) and not _is_inside(place, policy.hide)
    ]
    shown = [place for place in outermost(wanted) if not _is_inside(place, writable)]
    asked = {place: _read(place) for place in (*shown, *_needed_in_run(policy.network))}
    for place in policy.write:
        asked[place] = ["--dev-bind" if place.is_relative_to("/dev") else "--bind", str(place), str(place)]
    asked[policy.root] = ["--bind" if policy.edits else "--ro-bind", str(policy.root), str(policy.root)]
    asked |= {place: _read(place) for place in policy.guard}
    closed = {*own, *policy.hide}
    for place in policy.hide:
        is_open = place not in own and not _is_inside(place.parent, closed)
        if is_open or _is_inside(place, {*seen, *asked}):
            seen[place] = hide(place)
    rules = {**seen, **asked}
    for number, (place, text) in enumerate(policy.masked):
        if not _is_inside(place, (*own, *policy.hide)) or _is_inside(place, (*seen, *asked)):
            rules[place] = ["--ro-bind", str(copy_masked(policy.scratch, number, text)), str(place)]
    return rules if policy.seen_at is None else _with_lane(rules, policy, policy.seen_at)


def copy_masked(scratch: Path, number: int, text: str) -> Path:
    """Write what is seen in the place of a file."""
    copy = _make(scratch / "masked") / str(number)
    copy.write_bytes(text.encode("utf-8", "surrogateescape"))
    return copy


def _with_lane(rules: dict[Path, list[str]], policy: SandboxPolicy, home: Path) -> dict[Path, list[str]]:
    """Show a lane in the place of the user's work tree as well, with what it shares.

    Its `.git` names a folder in the user's `.git`, which is covered by that: git's folder is shown elsewhere.
    """
    lane, link = policy.root, policy.scratch / "git-link"
    common, text = git_link(lane)
    link.write_text(text)
    found = {place: words for place, words in rules.items() if not place.is_relative_to(home)}
    found |= {
        home / place.relative_to(lane): [words[0], words[1], str(home / place.relative_to(lane))]
        for place, words in rules.items()
        if place.is_relative_to(lane) and len(words) == 3
    }
    found[GIT_FOLDER] = ["--ro-bind", str(common), str(GIT_FOLDER)]
    hidden = [
        place.relative_to(home) for place in policy.hide if place.is_relative_to(home) and place != home
    ]
    closed = [path for path in hidden if (lane / path).exists()]
    for tree in (lane, home):
        found[tree / ".git"] = ["--ro-bind", str(link), str(tree / ".git")]
        found |= {tree / path: ["--ro-bind", str(home / path), str(tree / path)] for path in policy.shared}
        found |= {tree / path: hide(lane / path, tree / path) for path in closed}
    return found


def _needed_in_run(network: bool) -> list[Path]:
    names = [Path(os.path.realpath("/etc/resolv.conf"))] if network else []
    return [place for place in (*names, *map(Path, SHOWN_IN_RUN)) if os.path.exists(place)]


def _read(place: Path) -> list[str]:
    return ["--ro-bind-try", str(place), str(place)]


def hide(place: Path, seen_at: Path | None = None) -> list[str]:
    """Return the mount that covers a place, where it is or is seen."""
    target = str(seen_at or place)
    return ["--tmpfs", target] if os.path.isdir(place) else ["--ro-bind", "/dev/null", target]


def _is_inside(place: Path, others: Iterable[Path]) -> bool:
    around = others if isinstance(others, Set) else {*others}
    return not around.isdisjoint((place, *place.parents))


def find_bubblewrap() -> MounterFound:
    """Return whether bubblewrap works here; asked once."""
    return _find_bubblewrap()


@cache
def _find_bubblewrap() -> MounterFound:
    if not sys.platform.startswith("linux"):
        return MounterFound(False, why="bubblewrap exists on Linux only")
    if programs.find("bwrap") is None:
        inside = programs.find_inside("bwrap")
        why = programs.describe_missing("bwrap") if inside else "bubblewrap (bwrap) is not installed"
        return MounterFound(False, why=why, fix="Install bubblewrap, e.g. apt install bubblewrap")
    return _try_out("bubblewrap", mounter(bubblewrap=True))


def find_namespaces() -> MounterFound:
    """Return whether this process can have namespaces of its own without bubblewrap; asked once."""
    return _find_namespaces()


@cache
def _find_namespaces() -> MounterFound:
    if not sys.platform.startswith("linux"):
        return MounterFound(False, why="namespaces exist on Linux only")
    found = _try_out("Segue's own sandbox", mounter(bubblewrap=False))
    refused = not found.works and found.in_time
    return replace(found, why="this machine allows no user namespaces") if refused else found


def _try_out(name: str, program: Sequence[str]) -> MounterFound:
    """Try the whole line, then the one for containers, whose /proc cannot be mounted."""
    full = _try(program, own_proc=True)
    if full is not None and full.exit_code == 0:
        return MounterFound(True, own_proc=True)
    if full is not None and not full.in_time:
        why = f"{name} did not answer within {PROBE_SECONDS:g} s"
        return MounterFound(False, why=why, fix="Try again when the machine is less busy", in_time=False)
    shared = _try(program, own_proc=False)
    if shared is not None and shared.exit_code == 0:
        why = "the process table is shared, because /proc cannot be mounted here"
        return MounterFound(True, why=why, fix="In a container, start it with --security-opt unmask=ALL")
    said = full.said if full is not None else "no answer"
    return MounterFound(False, why=f"{name} does not work here ({said})", fix=_name_fix())


def _try(program: Sequence[str], *, own_proc: bool) -> Captured | None:
    with tempfile.TemporaryDirectory(prefix="segue-seal-") as folder:
        hidden = [part for place in ("/run", *TEMPORARY) for part in ("--tmpfs", os.path.realpath(place))]
        line = [*program, "--ro-bind", "/", "/", "--dev", "/dev", *proc_mounts(own_proc), *hidden]
        line += ["--bind", folder, folder, *CONTAINED, *_NO_NESTING, "--new-session", "--unshare-net"]
        return probe([*line, "--chdir", folder, "--", "/bin/true"])


def _name_fix() -> str:
    """Return what lets bubblewrap work, as far as the kernel's settings tell."""
    if _sysctl("kernel/apparmor_restrict_unprivileged_userns") == "1":
        return (
            "AppArmor forbids user namespaces (Ubuntu 24.04): install a profile for bwrap "
            "(apt install apparmor-profiles; aa-enforce bwrap-userns-restrict), or: "
            "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0"
        )
    if _sysctl("kernel/unprivileged_userns_clone") == "0":
        return "Allow user namespaces: sudo sysctl kernel.unprivileged_userns_clone=1"
    if _sysctl("user/max_user_namespaces") == "0":
        return "Allow user namespaces: sudo sysctl user.max_user_namespaces=10000"
    return (
        "In a container, start it with --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
        "--security-opt unmask=ALL"
    )


def _sysctl(name: str) -> str:
    try:
        return Path("/proc/sys", name).read_text().strip()
    except OSError:
        return ""


def machine() -> str:
    """Return what decides whether namespaces work: the program, the user, the kernel and its settings."""
    program = programs.find("bwrap")
    user = str(os.getuid()) if hasattr(os, "getuid") else ""
    facts = [str(program), str(Path(program).stat().st_mtime_ns) if program else "", user]
    for name in (
        "/proc/sys/kernel/random/boot_id",
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "/proc/sys/kernel/unprivileged_userns_clone",
        "/proc/sys/user/max_user_namespaces",
        "/proc/self/uid_map",
        "/proc/self/attr/current",
    ):
        try:
            facts.append(Path(name).read_text().strip())
        except OSError:
            facts.append("")
    return "|".join(facts)
