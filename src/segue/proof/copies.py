"""Run a check on a copy of the tree in another folder, where nothing can be mounted.

Dependencies are links to where they are; `PYTHONPATH` names the copy, so that what is installed as editable
is the copy's. Landlock, where the kernel has it, keeps the check from reading and changing the rest.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from segue.proof.command import KEPT_OUTPUT, TreeCommand, run_noticing
from segue.proof.git_copy import SHARED_OBJECTS, GitSource, make_git
from segue.proof.inputs import CACHES, Trees
from segue.proof.runners import Ended
from segue.system.files import private_folder
from segue.system.process.capture import capture
from segue.system.sandbox.isolation import DEVICES, landlocked
from segue.system.sandbox.landlock import landlock_abi
from segue.system.sandbox.places import SHARED, TOOLS, program_places
from segue.system.sandbox.policy import HiddenParts


class Copied(Struct, frozen=True):
    """Runs commands where the tree is, in a folder of its own."""

    trees: Trees
    git: GitSource
    private: HiddenParts

    def seen_at(self, tree: Path) -> Path:
        """Return where the tree is."""
        return tree

    async def run(self, order: TreeCommand) -> Ended:
        """Run a command on the tree, once its dependencies and a git folder are there."""
        self._prepare(order)
        env = {
            **order.env,
            "HOME": str(self._make_home(order)),
            "TMPDIR": str(private_folder(order.work / "tmp")),
        }
        paths = [env.get("PYTHONPATH", ""), str(order.tree), str(order.tree / "src")]
        env["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        argv = list(order.argv)
        if landlock_abi():
            argv = landlocked(self._rules(order, argv, env), argv)
        running = capture(argv, order.tree, env, order.timeout, limit=KEPT_OUTPUT)
        return await run_noticing(running, order)

    def _prepare(self, order: TreeCommand) -> None:
        """Give a tree links to its dependencies, and a git folder."""
        for path, source in order.inputs.items():
            if source.is_dir() and not os.path.lexists(order.tree / path):
                _link_all(source, order.tree / path)
        if not os.path.lexists(order.tree / ".git"):
            make_git(order.tree / ".git", self.git)
        if order.objects is not None:
            (order.tree / SHARED_OBJECTS).symlink_to(order.objects)

    def _make_home(self, order: TreeCommand) -> Path:
        """Make a home that is empty but for toolchains, and what the user shows."""
        real, home = Path(os.path.realpath(Path.home())), private_folder(order.work / "home")
        shown = [place.relative_to(real) for place in self.private.opened if place.is_relative_to(real)]
        for name in (*TOOLS, *map(str, shown)):
            if (real / name).exists() and not (home / name).exists():
                (home / name).parent.mkdir(parents=True, exist_ok=True)
                (home / name).symlink_to(real / name)
        return home

    def _rules(self, order: TreeCommand, argv: Sequence[str], env: dict[str, str]) -> dict[str, list[str]]:
        real = Path(os.path.realpath(Path.home()))
        closed = [self.trees.home, self.trees.root, real]
        hidden = [*closed, *self.private.hidden]
        objects = self.git.objects.common_dir / "objects"
        shown = [real / name for name in TOOLS]
        shown += [*order.inputs.values(), *order.readable, objects, *program_places(argv, env)]
        shown += [*self.private.opened, order.work, order.tree]
        # What is writable is so as a whole.
        shared = [place for place in SHARED if not any(one.is_relative_to(place) for one in closed)]
        writable = [order.work, order.tree, *shared, *(Path("/dev", name) for name in DEVICES)]
        return {
            "hidden": [str(place) for place in dict.fromkeys(hidden)],
            "shown": [os.path.realpath(place) for place in shown if place.exists()],
            "write": [os.path.realpath(place) for place in writable],
        }


def _link_all(source: Path, target: Path) -> None:
    """Make a folder of links to what is in another; links within the repository are made anew."""
    target.mkdir(parents=True, exist_ok=True)
    for entry in os.scandir(source):
        place = target / entry.name
        if entry.name in CACHES or os.path.lexists(place):
            continue
        if entry.is_symlink():
            link = os.readlink(entry.path)  # noqa: PTH115 - the text as it is
            place.symlink_to(link)
        elif entry.is_dir() and (entry.name.startswith("@") or entry.name == ".bin"):
            _link_all(Path(entry.path), place)
        else:
            place.symlink_to(entry.path)
