"""The command that runs a program in the sandbox: by mounts, by Landlock or in a container."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from segue.system import programs
from segue.system.files import leave_memory, private_folder
from segue.system.isolation import mounting
from segue.system.isolation.landlock import landlock_abi
from segue.system.isolation.policy import TEMPORARY, SandboxPolicy
from segue.system.process.capture import PROBE_SECONDS, probe
from segue.system.process.segue import part_command
from segue.system.reach import cut_variables

_DROPPED = ("SSH_AUTH_SOCK", "XDG_RUNTIME_DIR", "TEMP", "TMP")
"""Variables that name what is hidden."""
DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm")
_ADDRESS = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\]):(\d{1,5})")
_WEB = {80, 443}
_LISTEN = "0A"
_TEMPORARY = "segue-tmp"
_KEPT_FROM_HOST = ("PATH", "HOME", "TMPDIR", "TEMP", "TMP", "SHELL", "USER", "LOGNAME", "LD_LIBRARY_PATH")
"""Variables that mean something else in the image."""


class Enclosed(Struct, frozen=True):
    """A command as it is started, inside of the sandbox."""

    argv: tuple[str, ...]
    env: dict[str, str]
    layers: int = 0
    """How many processes of the sandbox are above the program; signals for it are not for them."""


def with_mounts(
    argv: Sequence[str], policy: SandboxPolicy, env: dict[str, str], *, bubblewrap: bool, own_proc: bool
) -> Enclosed:
    """Return the command under bubblewrap, or under our own program that mounts."""
    words = list(argv)
    if policy.is_strict and policy.network and landlock_abi() >= 4:
        words = landlocked({"shut_ports": sorted(_listening(argv, env))}, argv)
    outer = cut_variables(env, programs.reach())
    program = mounting.mounter(bubblewrap)
    for name in (name for name in env if outer.get(name) != env[name]):
        program += ["--setenv", name, env[name]]
    line = mounting.wrap(program, words, policy, env, own_proc)
    return Enclosed(tuple(line), outer, mounting.layers(own_proc))


def with_landlock(argv: Sequence[str], policy: SandboxPolicy, env: dict[str, str]) -> Enclosed:
    """Return the command that lays rules on itself."""
    leave_memory()  # /dev/shm cannot be taken from one program and left to others
    masked = [place for place, _ in policy.masked]  # nothing else can be seen in their place
    hidden = [*policy.hide, *masked, *([policy.home] if policy.is_strict else [])]
    read = [str(place) for place in policy.read if place not in masked]
    shown = [*read, str(policy.root), *_needed(argv, env, hidden)]
    temporary = () if policy.is_strict else TEMPORARY
    writable = [
        policy.scratch,
        *policy.write,
        *map(Path, temporary),
        *(Path("/dev", name) for name in DEVICES),
    ]
    rules = {
        "hidden": [str(place) for place in hidden],
        "shown": [*shown],
        "write": [os.path.realpath(place) for place in writable],
        "tree": [str(policy.root)] if policy.edits else [],
    }
    shut = _listening(argv, env) if policy.is_strict and policy.network else set()
    outer = cut_variables(env, programs.reach())
    inner = {name: value for name, value in env.items() if outer.get(name) != value}
    # A path cannot be refused to `connect`, only sockets altogether.
    document = {
        "rules": rules,
        "shut_ports": sorted(shut),
        "sockets": not policy.is_strict,
        "variables": inner,
    }
    return Enclosed(tuple(landlocked(document, argv)), outer)


def with_container(
    argv: Sequence[str], policy: SandboxPolicy, env: dict[str, str], runtime: str, image: str
) -> Enclosed:
    """Return the command in a container of a runtime; values of variables are not in it."""
    line = _container_line(argv, policy, env, runtime, image)
    # The runtime itself needs the user's own variables, to find its service, but not their programs.
    own = cut_variables(os.environ, programs.reach())
    return Enclosed(tuple(line), {**own, **env, "PATH": programs.outside_path()})


def inside_variables(env: Mapping[str, str], policy: SandboxPolicy, *, by_rules: bool) -> dict[str, str]:
    """Return the variables inside: git takes no needless locks, temporary files go where they may."""
    kept = {name: value for name, value in env.items() if name not in _DROPPED}
    kept["GIT_OPTIONAL_LOCKS"] = "0"
    given = Path(os.path.realpath(kept.get("TMPDIR", "/")))
    if not any(given.is_relative_to(place) for place in policy.write):
        # What is shown of the machine's /tmp cannot be written, such as the folder of pytest.
        own = private_folder(policy.scratch / "tmp" / _TEMPORARY)
        kept["TMPDIR"] = str(own) if by_rules else f"{TEMPORARY[0]}/{_TEMPORARY}"
    return kept


def landlocked(document: Mapping[str, object], argv: Sequence[str]) -> list[str]:
    """Return the command that lays rules on itself and becomes the program."""
    return [*part_command("segue.system.isolation.landlock"), json.dumps(document), *argv]


def _needed(argv: Sequence[str], env: Mapping[str, str], hidden: Iterable[Path]) -> Iterator[str]:
    from segue.system.isolation.places import program_places

    closed = list(hidden)
    for place in program_places([*argv, sys.executable], env):
        if any(place.is_relative_to(other) for other in closed):
            yield str(place)


def _container_name(token: str) -> str:
    return f"segue-{re.sub(r'[^A-Za-z0-9_.-]', '-', token)}"


def _listening(argv: Sequence[str], env: Mapping[str, str]) -> set[int]:
    """Return the ports on which something listens on this machine, without those named to the program."""
    named = {int(port) for word in (*argv, *env.values()) for port in _ADDRESS.findall(word)}
    found: set[int] = set()
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(name).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            words = line.split()
            if words[3] == _LISTEN:
                found.add(int(words[1].rpartition(":")[2], 16))
    return found - named - _WEB


def _container_line(
    argv: Sequence[str], policy: SandboxPolicy, env: Mapping[str, str], runtime: str, image: str
) -> list[str]:
    name = _container_name(policy.scratch.parent.parent.name)
    line = [programs.need(runtime), "run", "--rm", "--interactive", "--init", "--name", name]
    line += ["--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
    if sys.platform != "win32":
        line += ["--user", f"{os.getuid()}:{os.getgid()}"]
    line += [] if policy.network else ["--network", "none"]
    temporary = policy.scratch / "tmp"
    home = policy.scratch / "home"
    for folder in (temporary, home):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    line += ["--volume", f"{temporary}:/tmp", "--volume", f"{home}:{policy.home}"]
    for place, mode in sorted(_volumes(policy).items(), key=lambda item: len(item[0].parts)):
        line += ["--volume", f"{place}:{place}:{mode}"]
    for variable in env:
        line += [] if variable in _KEPT_FROM_HOST else ["--env", variable]
    line += ["--env", f"HOME={policy.home}", "--workdir", str(policy.root)]
    return [*line, image, *_inside(argv, policy)]


def remove_container(runtime: str, token: str) -> list[str]:
    """Return the command that ends the container of a launch whose client was killed."""
    return [programs.need(runtime), "rm", "--force", _container_name(token)]


def find_container(runtime: str | None, image: str | None) -> tuple[bool, str, str]:
    """Try the runtime with the image: whether it works, what is missing, and the fix."""
    if not runtime or not image:
        fix = 'Name both in segue.toml: [sandbox] runtime = "podman", image = "…"'
        return False, "no container runtime and image are named", fix
    program = programs.find(runtime)
    if program is None:
        return False, programs.describe_missing(runtime), f"Install {runtime}, or correct sandbox.runtime"
    done = probe([program, "image", "inspect", image])
    if done is not None and done.exit_code == 0:
        return True, "", ""
    if done is not None and not done.in_time:
        return False, f"{runtime} did not answer within {PROBE_SECONDS:g} s", f"Try: {runtime} image ls"
    said = done.said if done is not None else "no answer"
    return False, f"{runtime} does not have the image {image} ({said})", f"Get it: {runtime} pull {image}"


def _volumes(policy: SandboxPolicy) -> dict[Path, str]:
    """Return the folders of the machine that the container sees, and how."""
    own = dict.fromkeys(policy.read, "ro") | dict.fromkeys(policy.write, "rw")
    tree = {policy.root: "rw" if policy.edits else "ro"}
    return own | tree | dict.fromkeys(policy.guard, "ro")


def _inside(argv: Sequence[str], policy: SandboxPolicy) -> Iterator[str]:
    """Yield the command as the image knows it: programs of the machine are looked up on its own PATH."""
    program, *arguments = argv
    seen = (policy.root, *policy.read, *policy.write)
    if program == sys.executable:
        yield "python3"
    elif Path(program).is_absolute() and not any(Path(program).is_relative_to(place) for place in seen):
        yield Path(program).name
    else:
        yield program
    yield from arguments
