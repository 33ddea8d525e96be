"""Run a check on a tree that is mounted at the repository's own path."""

# Folders of somebody else cannot be looked into; pathlib would raise an error.
# ruff: noqa: PTH110, PTH112
from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from segue.proof.command import KEPT_OUTPUT, TreeCommand, run_noticing
from segue.proof.git_copy import SHARED_OBJECTS
from segue.proof.inputs import CACHES, Trees
from segue.proof.runners import Ended
from segue.system import programs
from segue.system.files import private_folder
from segue.system.process.capture import capture
from segue.system.sandbox.bubblewrap import CONTAINED, hide, proc_mounts
from segue.system.sandbox.isolation import SandboxChoice
from segue.system.sandbox.places import SHARED, TOOLS, named_places, outermost, program_places
from segue.system.sandbox.policy import HiddenParts

_NAMESPACES = (*CONTAINED, "--disable-userns", "--new-session", "--clearenv")
_ENVIRONMENTS = (
    ".virtualenvs",
    ".venvs",
    ".local/share/virtualenvs",
    ".local/share/hatch",
    ".cache/pypoetry",
)
"""Where tools keep environments of projects in a home that is hidden otherwise."""


class Mounted(Struct, frozen=True):
    """Shows the tree at the repository's own path."""

    choice: SandboxChoice
    trees: Trees
    private: HiddenParts

    def seen_at(self, tree: Path) -> Path:  # noqa: ARG002 - wherever it is
        """Return the path of the user's work tree."""
        return self.trees.home

    async def run(self, order: TreeCommand) -> Ended:
        """Run a command in namespaces of its own."""
        inputs = dict(order.inputs)
        empty = private_folder(order.work / "empty")
        caches = [
            f"{path}/{name}" for path, place in inputs.items() for name in CACHES if (place / name).is_dir()
        ]
        inputs |= dict.fromkeys(caches, empty)
        if order.objects is not None:
            private_folder(order.tree / SHARED_OBJECTS)
            inputs[SHARED_OBJECTS] = order.objects
        # Its variables are in the line: what sets up the mounts is no check.
        line = self._line(order, inputs)
        running = capture(line, order.work, timeout=order.timeout, limit=KEPT_OUTPUT)
        return await run_noticing(running, order)

    def _line(self, order: TreeCommand, inputs: Mapping[str, Path]) -> list[str]:
        """Return the command that runs another one in the sandbox."""
        root = str(self.trees.home)
        line = [
            programs.need("bwrap"),
            "--ro-bind",
            "/",
            "/",
            "--dev",
            "/dev",
            *proc_mounts(self.choice.own_proc),
        ]
        for place in hidden_places():
            line += ["--tmpfs", str(place)]
        rules = self._rules(order)
        # From the outside in, so that the innermost rule about a place counts.
        for place in sorted(rules, key=lambda path: len(path.parts)):
            line += rules[place]
        line += ["--bind", str(order.tree), root]
        for path, source in inputs.items():
            line += ["--ro-bind", str(source), f"{root}/{path}"]
        for place in order.writable:
            line += ["--bind", str(place), str(place)]
        line += [*_NAMESPACES, *(() if order.network else ("--unshare-net",))]
        for name, value in order.env.items():
            line += ["--setenv", name, value]
        return [*line, "--chdir", root, "--", *order.argv]

    def _rules(self, order: TreeCommand) -> dict[Path, list[str]]:
        """Return what is seen again although it is hidden, and what of the rest is a credential, by place."""
        names = [Path(os.path.realpath("/etc/resolv.conf"))] if order.network else []
        shown = [*self._visible(order), *names]
        rules = {place: ["--ro-bind-try", str(place), str(place)] for place in shown}
        covers = {*hidden_places(), self.trees.home}
        for place in self.private.hidden:
            above = {place, *place.parents}
            is_seen = covers.isdisjoint(above) or not above.isdisjoint(shown)
            if os.path.lexists(place) and is_seen and self.trees.home not in above:
                rules[place] = hide(place)
        return rules

    def _visible(self, order: TreeCommand) -> Iterator[Path]:
        """Yield what must be seen again although it is hidden: toolchains, and what the command names."""
        home, covers = Path(os.path.realpath(Path.home())), {*hidden_places(), *SHARED}
        wanted = [home / name for name in (*TOOLS, *_ENVIRONMENTS)]
        wanted += [*program_places(order.argv, order.env), *order.readable, *self.private.opened]
        named = named_places(order.argv, order.env, (self.trees.home, order.tree))
        # What the command only names is no reason to show a credential.
        wanted += [place for place in named if {*self.private.hidden}.isdisjoint((place, *place.parents))]
        hidden = [
            place for place in wanted if not covers.union(self.private.hidden).isdisjoint(place.parents)
        ]
        for place in outermost(hidden):
            if not place.is_relative_to(self.trees.home) and os.path.exists(place):
                yield place


def hidden_places() -> tuple[Path, ...]:
    """Return what checks do not see, outer places first: temporary files, sockets, the user's home."""
    home = Path(os.path.realpath(Path.home()))
    # /dev/shm is new with /dev.
    places = [place for place in SHARED if not place.is_relative_to("/dev")]
    places += [Path(os.path.realpath("/run")), *([home] if home != Path("/") else [])]
    found = dict.fromkeys(place for place in places if os.path.isdir(place))
    return tuple(sorted(found, key=lambda place: len(place.parts)))
