"""Choose how programs are isolated on this machine, and put them into the sandbox."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from pathlib import Path

import msgspec
from msgspec import Struct

from segue.domain.errors import ToolMissing
from segue.domain.events import NOT_ISOLATED
from segue.system import programs
from segue.system.files import is_led, private_folder, write_atomic
from segue.system.isolation import commands, mounting
from segue.system.isolation.commands import Enclosed
from segue.system.isolation.homes import PrivateParts, own_places
from segue.system.isolation.landlock import landlock_abi
from segue.system.isolation.mounting import MounterFound
from segue.system.isolation.policy import (
    TEMPORARY,
    OwnInstallation,
    Places,
    SandboxPolicy,
    Strength,
    examine_installation,
    expand_places,
    explain_denied,
    find_hidden,
    find_opened,
    make_policy,
)
from segue.system.lane import is_beside, lane_variables, list_shared
from segue.system.process.capture import Captured
from segue.system.process.segue import part_folders

_log = logging.getLogger(__name__)

NOTHING = Places()
_KEPT_OUTPUT = 64 * 1024**2


class Means(StrEnum):
    """What enforces the policy."""

    BWRAP = "bwrap"
    NAMESPACES = "namespaces"
    CONTAINER = "container"
    LANDLOCK = "landlock"
    NONE = "none"


_WITHOUT_READ_ONLY = (Means.LANDLOCK, Means.NONE)
"""What cannot keep a place in the work tree as it is."""
MOUNTING = (Means.BWRAP, Means.NAMESPACES)
"""What can show a tree at the path of another, the preferred one first."""


class SandboxChoice(Struct, frozen=True):
    """What is in force, and why it is nothing stronger."""

    means: Means
    own_proc: bool = False
    why: str = ""
    fix: str = ""


class SandboxOptions(Struct, frozen=True):
    """What the user wants."""

    isolation: str = "none"
    strength: Strength = Strength.STANDARD
    given: Places = Places()
    hide: tuple[Path, ...] = ()
    runtime: str | None = None
    image: str | None = None
    state_dir: Path | None = None
    """Segue's own folder; it is hidden, and remembers what works on this machine."""
    home: Path | None = None
    """The user's work tree. With mounts, those that Segue makes beside it are seen in its place."""
    shared: tuple[str, ...] = ()
    """Globs of what they share with it, beside dependencies and local settings."""


class Isolation:
    """The sandbox of one command of Segue: chosen when it is first needed."""

    def __init__(self, options: SandboxOptions | None = None) -> None:
        """Without options nothing is isolated."""
        self._options = options or SandboxOptions()
        self._unwritten: dict[str, object] = {}

    @property
    def strength(self) -> Strength:
        """How much of the home is hidden."""
        return self._options.strength

    @property
    def is_off(self) -> bool:
        """True if the user wants no sandbox."""
        return self._options.isolation == "none"

    @cached_property
    def chosen(self) -> SandboxChoice:
        """What is in force; raises ToolMissing where the user wants more than there is."""
        chosen = self._choose()
        _log.info("sandbox: %s%s", chosen.means, f" ({chosen.why})" if chosen.why else "")
        return chosen

    def _choose(self) -> SandboxChoice:
        if self.is_off:
            return SandboxChoice(Means.NONE)
        wanted = self._options.isolation
        if wanted in ("auto", "require"):
            chosen = self._strongest()
            if wanted == "require" and chosen.means is Means.NONE:
                raise _missing('isolation = "require", but nothing here can isolate agents', chosen)
            return chosen
        chosen = self.try_means(Means(wanted))
        if chosen.means is Means.NONE:
            raise _missing(f'isolation = "{wanted}" does not work here', chosen)
        return chosen

    @property
    def forbids_own(self) -> bool:
        """Whether a program that brings a sandbox of its own cannot use it inside: namespaces do not nest."""
        chosen, is_strict = self.chosen, self.strength is Strength.STRICT
        if chosen.means is Means.NONE:
            return False
        return chosen.means not in MOUNTING or is_strict or not chosen.own_proc or mounting.is_root()

    @property
    def keeps_git(self) -> bool:
        """Whether agents cannot write to the git folder of their work tree."""
        given = (str(place).rstrip("/") for place in self._options.given.write)
        return self.chosen.means not in _WITHOUT_READ_ONLY and not any(one.endswith(".git") for one in given)

    @property
    def label(self) -> str:
        """What is in force, for people and reports: `bwrap standard`, `landlock strict`, `not isolated`."""
        chosen = self.chosen
        return NOT_ISOLATED if chosen.means is Means.NONE else f"{chosen.means} {self.strength}"

    @property
    def sentence(self) -> str:
        """What is in force, for the head of a run."""
        chosen = self.chosen
        if chosen.means is Means.NONE:
            why = f": {chosen.why}" if chosen.why else ""
            return f"Agents are {NOT_ISOLATED}{why}."
        note = f" ({chosen.why})" if chosen.why else ""
        return f"Agents are isolated by {chosen.means}, {self.strength}{note}."

    def try_means(self, means: Means, *, again: bool = False) -> SandboxChoice:
        """Try one means out; NONE says why it does not work. `again`: whatever was found out before."""
        if means in MOUNTING:
            found = _FIND[means]() if again else self._find(means)
            return SandboxChoice(means if found.works else Means.NONE, found.own_proc, found.why, found.fix)
        if means is Means.CONTAINER:
            works, why, fix = commands.find_container(self._options.runtime, self._options.image)
            return SandboxChoice(means if works else Means.NONE, why=why, fix=fix)
        if means is Means.LANDLOCK and not landlock_abi():
            linux = sys.platform.startswith("linux")
            why = "this kernel has no Landlock" if linux else "Landlock exists on Linux only"
            fix = "Use Linux 5.13 or newer, with landlock in the kernel's parameter lsm=" if linux else ""
            return SandboxChoice(Means.NONE, why=why, fix=fix)
        return SandboxChoice(means)

    def _strongest(self) -> SandboxChoice:
        if not sys.platform.startswith("linux"):
            return SandboxChoice(Means.NONE, why="there is no means for this system")
        tried: list[SandboxChoice] = []
        for means in (*MOUNTING, *([Means.CONTAINER] if self._options.image else []), Means.LANDLOCK):
            chosen = self.try_means(means)
            if chosen.means is Means.NAMESPACES:
                return chosen  # it does all that bubblewrap does
            if chosen.means is not Means.NONE:
                why = "; ".join(filter(None, [*(one.why for one in tried), chosen.why]))
                return msgspec.structs.replace(chosen, why=why, fix=tried[0].fix if tried else chosen.fix)
            tried.append(chosen)
        return SandboxChoice(Means.NONE, why="; ".join(one.why for one in tried), fix=tried[0].fix)

    @cached_property
    def mounter(self) -> SandboxChoice:
        """What shows checks a tree at the repository's path, whatever agents are isolated by.

        NONE says why nothing does.
        """
        tried = [self.try_means(means) for means in MOUNTING[:1]]
        if tried[0].means is Means.NONE:
            tried.append(self.try_means(MOUNTING[1]))
        if tried[-1].means is not Means.NONE:
            return tried[-1]
        return SandboxChoice(Means.NONE, why="; ".join(one.why for one in tried), fix=tried[0].fix)

    def _find(self, means: Means) -> MounterFound:
        """Return what was found since the machine was started, or find it out."""
        folder, key = self._options.state_dir, mounting.machine()
        note = folder / "isolation.json" if folder else None
        known: dict[str, object] = {}
        try:
            read = json.loads(note.read_bytes()) if note else {}
            known = read if read.get("key") == key else {}
            return msgspec.convert(known[means], MounterFound)
        except (OSError, ValueError, KeyError, AttributeError, msgspec.ValidationError):
            pass
        found = _FIND[means]()
        if found.in_time:
            self._unwritten = {**known, **self._unwritten, "key": key, str(means): msgspec.to_builtins(found)}
        return found

    def remember(self) -> None:
        """Write down what was found out, with the first program that is started inside: not before."""
        folder, found = self._options.state_dir, self._unwritten
        self._unwritten = {}
        if found and folder and folder.is_dir():
            write_atomic(folder / "isolation.json", json.dumps(found).encode(), durable=False)

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
        """
        chosen, env = self.chosen, {**env, **lane_variables(root)}
        self.remember()
        if chosen.means is Means.NONE:
            programs.record([root])
            return Enclosed(tuple(argv), env)
        home = self._home_of(root) if chosen.means in MOUNTING else None
        places = [root, *([home] if home else [])] if "/" in argv[0] else [Path()]
        found = next(
            filter(None, (programs.find_inside(str(place / argv[0]), env.get("PATH")) for place in places)),
            None,
        )
        if found is None:
            return Enclosed(tuple(argv), env)  # a missing program is reported by whoever starts it
        mine = own_places(Path.home(), argv, Path(found)) if not Path(found).is_relative_to(root) else []
        policy = make_policy(
            root,
            private_folder(scratch),
            self.strength,
            self._options.given,
            Places(own.write, (*own.read, *mine, *map(Path, part_folders()))),
            self._hidden,
            caches=self.strength is Strength.STANDARD or chosen.means is Means.LANDLOCK,
            network=network,
            edits=edits,
        )
        if home is not None and policy.guard:
            shared = list_shared(home, policy.root, self._options.shared) if shares else ()
            seen = [path for path in shared if not _is_hidden(home / path, policy.hide)]
            policy = msgspec.structs.replace(policy, seen_at=home, shared=tuple(seen))
        shared_by_all = TEMPORARY if chosen.means is Means.LANDLOCK and not policy.is_strict else ()
        programs.record([policy.root, *policy.write, *shared_by_all])
        policy = msgspec.structs.replace(policy, guard=(*policy.guard, *self._installation.kept))
        return self._wrap(chosen, argv, policy, env)

    def _wrap(
        self, chosen: SandboxChoice, argv: Sequence[str], policy: SandboxPolicy, env: Mapping[str, str]
    ) -> Enclosed:
        inside = commands.inside_variables(env, policy, by_rules=chosen.means is Means.LANDLOCK)
        if chosen.means is Means.LANDLOCK:
            return commands.with_landlock(argv, policy, inside)
        if chosen.means is Means.CONTAINER:
            assert self._options.runtime
            assert self._options.image
            return commands.with_container(argv, policy, inside, self._options.runtime, self._options.image)
        bubblewrap = chosen.means is Means.BWRAP
        return commands.with_mounts(argv, policy, inside, bubblewrap=bubblewrap, own_proc=chosen.own_proc)

    @property
    def _hidden(self) -> tuple[Path, ...]:
        state = self._options.state_dir
        return (*self._options.hide, *([state] if state else []))

    def find_hidden(self, root: Path) -> PrivateParts:
        """Return what checks on a work tree do not see: the same as agents, but for what these need."""
        return find_hidden(root, self._hidden, find_opened(root, self._options.given.read))

    @property
    def opened(self) -> list[str]:
        """What the user shows to agents and checks although it is hidden otherwise."""
        return sorted(map(str, self._options.given.read))

    @cached_property
    def _installation(self) -> OwnInstallation:
        options = self._options
        return examine_installation(
            options.home or Path(), options.given.write, can_keep=self.chosen.means not in _WITHOUT_READ_ONLY
        )

    @property
    def own_note(self) -> str:
        """What agents can do to Segue itself, if it is installed where they work; usually nothing."""
        return "" if self.chosen.means is Means.NONE else " ".join(self._own_notes())

    def _own_notes(self) -> Iterator[str]:
        if self._installation.note:
            yield self._installation.note
        home, state, given = self._options.home, self._options.state_dir, self._options.given
        if home is None:
            return
        if self.chosen.means is Means.LANDLOCK and state is not None and state.is_relative_to(home):
            yield f"Segue's state is in {state}, where Landlock lets agents write: they could damage it."
        for place in expand_places(home, (*given.write, *given.read)):
            if is_led(place):
                target = os.path.realpath(place)
                yield f"{place} is not opened, for agents could make that link: name {target} instead."

    def _home_of(self, root: Path) -> Path | None:
        """Return the user's work tree, if this one was made by Segue beside it."""
        home, state = self._options.home, self._options.state_dir
        if home is None or state is None or Path(os.path.realpath(root)).is_relative_to(home):
            return None
        return home if is_beside(root, state) else None

    def explain(self, text: str) -> str:
        """Return which setting opens the place that a program says it could not write; usually nothing."""
        means, kept = self.chosen.means, self._installation.kept
        if "ead-only file system" in text and any(f"{place}/" in text for place in kept):
            return self.own_note
        return "" if means is Means.NONE else explain_denied(text, by_rules=means is Means.LANDLOCK)

    def ending(self, token: str) -> list[str] | None:
        """Return the command that ends what a killed client of a container runtime left, if that is used."""
        if self.is_off or self.chosen.means is not Means.CONTAINER:
            return None
        assert self._options.runtime
        return commands.remove_container(self._options.runtime, token)


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
        return await mounting.capture_mounted(inside.argv, root, inside.env, timeout=timeout, limit=limit)


_FIND = {Means.BWRAP: mounting.find_bubblewrap, Means.NAMESPACES: mounting.find_namespaces}


def _is_hidden(place: Path, hidden: Iterable[Path]) -> bool:
    return any(place.is_relative_to(other) for other in hidden)


def _missing(message: str, chosen: SandboxChoice) -> ToolMissing:
    hint = chosen.fix or 'Set isolation = "auto"'
    return ToolMissing(f"{message}: {chosen.why}.", kept="Nothing was started.", hint=hint)
