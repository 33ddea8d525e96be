"""The sandbox by a container runtime that the user names: docker or podman, with an image of the user's."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from segue.system import programs
from segue.system.isolation.policy import SandboxPolicy
from segue.system.process.capture import PROBE_SECONDS, probe

_KEPT_FROM_HOST = ("PATH", "HOME", "TMPDIR", "TEMP", "TMP", "SHELL", "USER", "LOGNAME", "LD_LIBRARY_PATH")
"""Variables that mean something else in the image."""


def wrap(
    argv: Sequence[str], policy: SandboxPolicy, env: Mapping[str, str], runtime: str, image: str, name: str
) -> list[str]:
    """Return the command that runs `argv` in a container; values of variables are not in it."""
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


def remove(runtime: str, name: str) -> list[str]:
    """Return the command that ends a container whose client was killed."""
    return [programs.need(runtime), "rm", "--force", name]


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
