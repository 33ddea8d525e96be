"""Choose how programs are isolated on this machine, and put them into the sandbox."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from pathlib import Path

import msgspec
from msgspec import Struct

from segue.domain.errors import ToolMissing
from segue.domain.events import NOT_ISOLATED
from segue.system import programs
from segue.system.files import leave_memory, private_folder
from segue.system.lane import is_beside, lane_variables, list_shared
from segue.system.process.capture import Captured, capture
from segue.system.process.segue import part_command, part_folders
from segue.system.sandbox import bubblewrap
from segue.system.sandbox.landlock import landlock_abi
from segue.system.sandbox.places import TEMPORARY, program_places
from segue.system.sandbox.policy import (
    HiddenParts,
    Places,
    SandboxPolicy,
    Strength,
    find_hidden,
    find_opened,
    make_policy,
)

_log = logging.getLogger(__name__)

NOTHING = Places()
DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm")
_KEPT_OUTPUT = 64 * 1024**2
_HIDDEN_VARIABLES = ("SSH_AUTH_SOCK", "XDG_RUNTIME_DIR", "TEMP", "TMP")
"""Variables that name what is hidden."""
_LOADER = ("LD_", "DYLD_")
"""How variables begin that make the system load something into each program: they are set inside only."""


class SandboxKind(StrEnum):
    """What enforces the policy."""

    BWRAP = "bwrap"
    LANDLOCK = "landlock"
    NONE = "none"


class SandboxChoice(Struct, frozen=True):
    """What is in force, and why it is nothing stronger."""

    kind: SandboxKind
    own_proc: bool = False
    why: str = ""
    fix: str = ""


class SandboxOptions(Struct, frozen=True):
    """What the user wants."""

    isolation: str = "none"
    strength: Strength = Strength.STANDARD
    given: Places = Places()
    hide: tuple[Path, ...] = ()
    state_dir: Path | None = None
    """Segue's own folder; it is hidden."""
    home: Path | None = None
    """The user's work tree. With mounts, those that Segue makes beside it are seen in its place."""
    shared: tuple[str, ...] = ()
    """Globs of what they share with it, beside dependencies and local settings."""


class Enclosed(Struct, frozen=True):
    """A command as it is started, inside of the sandbox."""

    argv: tuple[str, ...]
    env: dict[str, str]
    layers: int = 0
    """How many processes of the sandbox are above the program; signals for it are not for them."""


class Isolation:
    """The sandbox of one command of Segue: chosen when it is first needed."""

    def __init__(self, options: SandboxOptions | None = None) -> None:
        """Without options nothing is isolated."""
        self._options = options or SandboxOptions()

    @property
    def is_off(self) -> bool:
        """True if the user wants no sandbox."""
        return self._options.isolation == "none"

    @cached_property
    def chosen(self) -> SandboxChoice:
        """What is in force; raises ToolMissing where the user wants more than there is."""
        wanted = self._options.isolation
        is_open = wanted in ("auto", "require")
        chosen = self._strongest() if is_open else self.try_kind(SandboxKind(wanted))
        if chosen.kind is SandboxKind.NONE and wanted not in ("auto", "none"):
            what = "nothing here can isolate agents" if wanted == "require" else "that does not work here"
            raise ToolMissing(
                f'isolation = "{wanted}", but {what}: {chosen.why}.',
                kept="Nothing was started.",
                hint=chosen.fix or 'Set isolation = "auto"',
            )
        _log.info("sandbox: %s%s", chosen.kind, f" ({chosen.why})" if chosen.why else "")
        return chosen

    def _strongest(self) -> SandboxChoice:
        mounts = self.mounter
        if mounts.kind is not SandboxKind.NONE:
            return mounts
        rules = self.try_kind(SandboxKind.LANDLOCK)
        why = "; ".join(filter(None, (mounts.why, rules.why)))
        return msgspec.structs.replace(rules, why=why, fix=mounts.fix)

    @cached_property
    def mounter(self) -> SandboxChoice:
        """What shows checks a tree at the repository's path, whatever agents are isolated by.

        NONE says why nothing does.
        """
        return self.try_kind(SandboxKind.BWRAP)

    def try_kind(self, kind: SandboxKind) -> SandboxChoice:
        """Try out one enforcer; NONE says why it does not work."""
        if kind is SandboxKind.BWRAP:
            trial = bubblewrap.try_bubblewrap()
            found = kind if trial.works else SandboxKind.NONE
            return SandboxChoice(found, trial.own_proc, trial.why, trial.fix)
        if kind is SandboxKind.LANDLOCK and not landlock_abi():
            linux = sys.platform.startswith("linux")
            why = "this kernel has no Landlock" if linux else "Landlock exists on Linux only"
            fix = "Use Linux 5.13 or newer, with landlock in the kernel's parameter lsm=" if linux else ""
            return SandboxChoice(SandboxKind.NONE, why=why, fix=fix)
        return SandboxChoice(kind)

    @property
    def forbids_own(self) -> bool:
        """Whether a program that brings a sandbox of its own cannot use it inside: namespaces do not nest."""
        chosen, is_strict = self.chosen, self._options.strength is Strength.STRICT
        if chosen.kind is SandboxKind.NONE:
            return False
        return chosen.kind is SandboxKind.LANDLOCK or is_strict or not chosen.own_proc or bubblewrap.is_root()

    @property
    def keeps_git(self) -> bool:
        """Whether agents cannot write to the git folder of their work tree."""
        given = (str(place).rstrip("/") for place in self._options.given.write)
        return self.chosen.kind is SandboxKind.BWRAP and not any(place.endswith(".git") for place in given)

    @property
    def label(self) -> str:
        """What is in force, for people and reports: `bwrap standard`, `landlock strict`, `not isolated`."""
        chosen = self.chosen
        return NOT_ISOLATED if chosen.kind is SandboxKind.NONE else f"{chosen.kind} {self._options.strength}"

    @property
    def sentence(self) -> str:
        """What is in force, for the head of a run."""
        chosen = self.chosen
        if chosen.kind is SandboxKind.NONE:
            why = f": {chosen.why}" if chosen.why else ""
            return f"Agents are {NOT_ISOLATED}{why}."
        note = f" ({chosen.why})" if chosen.why else ""
        return f"Agents are isolated by {chosen.kind}, {self._options.strength}{note}."

    def enclose(
        self,
        argv: Sequence[str],
        root: Path,
        env: Mapping[str, str],
        scratch: Path,
        own: Places = NOTHING,
        *,
        network: bool = True,
        edits: bool = True,
        shares: bool = True,
    ) -> Enclosed:
        """Return the command as it is started; `scratch` is a folder that this launch has for itself.

        Unless it `shares`, a lane has nothing of the user's work tree, so that it can be given its own.
        A program that is not there raises ToolMissing: it might appear, and would run outside.
        """
        chosen, options, env = self.chosen, self._options, {**env, **lane_variables(root)}
        if chosen.kind is SandboxKind.NONE:
            return Enclosed(tuple(argv), env)
        mounts = chosen.kind is SandboxKind.BWRAP
        home = self._home_of(root) if mounts else None
        self._find_program(argv[0], [root, *([home] if home else [])], env)
        policy = make_policy(
            root,
            private_folder(scratch),
            options.strength,
            options.given,
            Places(own.write, (*own.read, *map(Path, part_folders()))),
            self._hidden,
            caches=options.strength is Strength.STANDARD or not mounts,
            network=network,
            edits=edits,
        )
        if home is not None and policy.guard:
            shared = list_shared(home, policy.root, options.shared) if shares else ()
            seen = [path for path in shared if not _is_hidden(home / path, policy.hide)]
            policy = msgspec.structs.replace(policy, seen_at=home, shared=tuple(seen))
        inside = _inside_variables(env, policy, mounts=mounts)
        outer = {name: value for name, value in inside.items() if not name.startswith(_LOADER)}
        inner = {name: value for name, value in inside.items() if name not in outer}
        if not mounts:
            return Enclosed(tuple(_with_landlock(argv, policy, inside, inner)), outer)
        line = bubblewrap.wrap(argv, policy, inside, chosen.own_proc)
        line[1:1] = [word for name, value in inner.items() for word in ("--setenv", name, value)]
        return Enclosed(tuple(line), outer, bubblewrap.layers(chosen.own_proc))

    def _find_program(self, name: str, folders: Sequence[Path], env: Mapping[str, str]) -> None:
        places = folders if "/" in name else [Path()]
        if not any(programs.find_inside(str(place / name), env.get("PATH")) for place in places):
            raise ToolMissing(f"{name} cannot be found", hint=f"Install {name} or put its folder on PATH.")

    @property
    def _hidden(self) -> tuple[Path, ...]:
        state = self._options.state_dir
        return (*self._options.hide, *([state] if state else []))

    def find_hidden(self, root: Path) -> HiddenParts:
        """Return what checks on a work tree do not see: the same as agents, but for what these need."""
        return find_hidden(root, self._hidden, find_opened(root, self._options.given.read))

    @property
    def opened(self) -> list[str]:
        """What the user shows to agents and checks although it is hidden otherwise."""
        return sorted(map(str, self._options.given.read))

    def _home_of(self, root: Path) -> Path | None:
        """Return the user's work tree, if this one was made by Segue beside it."""
        home, state = self._options.home, self._options.state_dir
        if home is None or state is None or Path(os.path.realpath(root)).is_relative_to(home):
            return None
        return home if is_beside(root, state) else None


async def capture_inside(
    isolation: Isolation,
    argv: Sequence[str],
    root: Path,
    env: Mapping[str, str],
    timeout: float,
    *,
    network: bool,
    own: Places = NOTHING,
    limit: int = _KEPT_OUTPUT,
    shares: bool = True,
) -> Captured:
    """Run a tool on the work tree to its end, inside of the sandbox, and return its output."""
    with tempfile.TemporaryDirectory(prefix="segue-inside-", ignore_cleanup_errors=True) as folder:
        scratch = Path(folder) / "scratch"
        inside = await asyncio.to_thread(
            isolation.enclose, argv, root, env, scratch, own, network=network, shares=shares
        )
        return await capture(inside.argv, root, inside.env, timeout, limit=limit)


def landlocked(
    rules: Mapping[str, Sequence[str]], argv: Sequence[str], variables: Mapping[str, str] | None = None
) -> list[str]:
    """Return the command that lays rules on itself, sets the variables and becomes the program."""
    document = {"rules": rules, "variables": variables or {}}
    return [*part_command("segue.system.sandbox.landlock"), json.dumps(document), *argv]


def _with_landlock(
    argv: Sequence[str], policy: SandboxPolicy, env: Mapping[str, str], inner: Mapping[str, str]
) -> list[str]:
    leave_memory()  # /dev/shm cannot be taken from one program and left to others
    hidden = [*policy.hide, *([policy.home] if policy.is_strict else [])]
    needed = [place for place in program_places([*argv, sys.executable], env) if _is_hidden(place, hidden)]
    writable = [
        policy.scratch,
        *policy.write,
        *(() if policy.is_strict else map(Path, TEMPORARY)),
        *(Path("/dev", name) for name in DEVICES),
    ]
    rules = {
        "hidden": [str(place) for place in hidden],
        "shown": [str(place) for place in (*policy.read, policy.root, *needed)],
        "write": [os.path.realpath(place) for place in writable],
        "tree": [str(policy.root)] if policy.edits else [],
    }
    return landlocked(rules, argv, inner)


def _inside_variables(env: Mapping[str, str], policy: SandboxPolicy, *, mounts: bool) -> dict[str, str]:
    """Return the variables inside: git takes no needless locks, temporary files go where they may."""
    kept = {name: value for name, value in env.items() if name not in _HIDDEN_VARIABLES}
    kept["GIT_OPTIONAL_LOCKS"] = "0"
    given = Path(os.path.realpath(kept.get("TMPDIR", "/")))
    if not any(given.is_relative_to(place) for place in policy.write):
        kept["TMPDIR"] = TEMPORARY[0] if mounts else str(private_folder(policy.scratch / "tmp"))
    return kept


def _is_hidden(place: Path, hidden: Sequence[Path]) -> bool:
    return any(place.is_relative_to(other) for other in hidden)
