"""Run a check on a composed tree and read its report."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.text import cut_tail
from segue.proof.command import TreeCommand
from segue.proof.compose import Composed
from segue.proof.copies import Copied
from segue.proof.disguise import Disguise
from segue.proof.inputs import (
    Dependencies,
    Inputs,
    Trees,
    copy_facts,
    encode_note,
    machine_facts,
    place_copies,
    user_site_places,
)
from segue.proof.mounts import Mounted
from segue.proof.mutation.sharpness import Effort
from segue.proof.repository import make_repository
from segue.proof.runners import WHOLE, Ended, Purpose, Runner, Stage, read_report
from segue.proof.runs import Observed
from segue.proof.setup import Entries, Environment, Setup, place_installed
from segue.proof.trees import write_tree
from segue.system.beneath import Beneath
from segue.system.files import private_folder
from segue.system.git.objects import Objects
from segue.system.identity import start_time
from segue.system.lane import lane_variables
from segue.system.process.capture import inside_environment
from segue.system.programs import find_inside

_SIDE_BY_SIDE = max(4, os.cpu_count() or 1)
"""Runs of one check at once: most wait for something, or for their own start, more than they compute."""
_SHARING = 2
"""As many that may meet at a port or a database."""
TEMPORARY_CHECK = "checkout-"
"""How the names of folders begin in which copies are: it tells programs nothing, agents do not see it."""
_DROPPED = ("TMPDIR", "TEMP", "TMP", "SSH_AUTH_SOCK", "XDG_RUNTIME_DIR", "SHELL")
_TOOLCHAINS = ("GOPATH", "GOMODCACHE", "GOROOT", "CGO_ENABLED", "CARGO_HOME", "RUSTUP_HOME")
"""What the runners of the others pass on."""
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


class SealOptions(Struct, frozen=True):
    """How checks are sealed."""

    control_files: tuple[str, ...] = ()
    """Globs of further control files."""
    known_failures: tuple[str, ...] = ()
    """Globs of the ids of tests that may fail."""
    setup: tuple[tuple[str, ...], ...] = ()
    """Commands that make the tree ready, such as `npm ci`; they may use the network."""
    teardown: tuple[tuple[str, ...], ...] = ()
    """Commands that run after each check; with any of them, `setup` runs before each check too."""
    network: bool = False
    """Whether checks may use the network."""
    means: Literal["auto", "bwrap", "namespaces", "copy"] = "auto"
    """How checks are kept apart: `auto` takes the first of the others that works here."""
    timeout: float = 600
    """Seconds that one run of a check may take."""
    long: float = 5
    """Seconds after which a suite is long: it is run whole once, and then only what a task changed of it."""
    effort: Effort = Effort()
    """How much mutants ask of the tests that prove a task."""
    bases: Path | None = None
    """Where results on trees that nobody works on are kept for all runs; None: with the run."""
    exams: Path | None = None
    """Where independent tests are kept, out of the repository; None: there are none."""
    setups: Path | None = None
    """Where what setup commands make is kept for all lanes of a run; None: with each."""
    environments: Path | None = None
    """Where it is kept for others that begin with the same files and programs; None: for nobody else."""


class Prepared(Struct, frozen=True):
    """What was added to a tree before a command runs on it."""

    argv: tuple[str, ...]
    readable: Sequence[Path] = ()
    objects: Path | None = None


class Sandbox:
    """Runs checks on trees of their own."""

    def __init__(
        self,
        means: Mounted | Copied,
        trees: Trees,
        scratch: Path,
        options: SealOptions,
        objects: Objects,
        inputs: Inputs,
        dependencies: Dependencies,
    ) -> None:
        self._means, self._trees, self._scratch, self._options = means, trees, scratch, options
        self._objects, self._inputs = objects, inputs
        self.shares_network = options.network or isinstance(means, Copied)
        self._slots = asyncio.Semaphore(_SHARING if self.shares_network else _SIDE_BY_SIDE)
        self._dependencies = dependencies
        # What is torn down after each check must be set up before each check.
        salt = secrets.token_hex(8) if options.teardown else ""
        home, is_kept = options.setups or scratch, options.environments is not None and not salt
        if options.environments is not None and is_kept:
            env = environment({}, network=True)
            facts = (str(trees.home), type(means).__name__, copy_facts(inputs, scratch), machine_facts(env))
            home = options.environments / hashlib.sha256(encode_note(facts)).hexdigest()[:32]
        self._setup = Setup(options.setup, home, salt, is_kept=is_kept) if options.setup else None
        self._environment: Environment | None = None

    @property
    def root(self) -> Path:
        """Where setup commands see the tree, if not where it is."""
        return self._trees.home

    @property
    def environment(self) -> Environment | None:
        """What setup commands, or the check itself, made."""
        return self._environment

    def within(self, environment: Environment | None) -> Sandbox:
        """Return a sandbox with another environment for what it runs."""
        other = copy.copy(self)
        other._environment = environment
        return other

    async def build(self, entries: Entries) -> Environment | None:
        """Run the setup commands on a tree, unless they have made its environment before."""
        if self._setup is None:
            return None
        found = await asyncio.to_thread(self._setup.find, entries)
        write = partial(self._write, Composed(entries))
        return found or await self._setup.make(entries, write, self._run_open)

    def made_by(self, argv: Sequence[str]) -> Environment | None:
        """Return the environment that a check has made for itself when the run began."""
        return None if self._setup is not None else self._own_setup(argv).first()

    async def make_by(self, argv: Sequence[str], entries: Entries) -> Environment:
        """Let a check make an environment for itself, once, with the network and nobody's work."""
        return await self._own_setup(argv).make(
            entries, partial(self._write, Composed(entries)), self._run_open
        )

    def _own_setup(self, argv: Sequence[str]) -> Setup:
        return Setup((argv,), self._options.setups or self._scratch, by_check=True)

    async def run(
        self,
        argv: Sequence[str],
        composed: Composed,
        armed: Sequence[Runner],
        disguise: Disguise = Disguise.WATCHED,
        purpose: Purpose = WHOLE,
    ) -> Observed:
        """Run the command on the tree and return how it ended; nothing of it is left.

        An ordinary run reports no tests.
        """
        armed = armed if disguise is Disguise.WATCHED else ()
        async with self._slots, self._workplace(disguise) as (work, token):
            began = time.monotonic()
            stage, ended = await self._run(
                tuple(argv), composed, armed, work, token, disguise=disguise, purpose=purpose
            )
            return replace(observe(stage, armed, ended), seconds=round(time.monotonic() - began, 3))

    async def try_out(self, argv: Sequence[str], composed: Composed, script: Path | None = None) -> Ended:
        """Run a command that is no check; with a script, Python (its first word) runs the script with it."""
        async with self._slots, self._workplace() as (work, token):
            words = with_script(argv, script, work / "hooks")
            return (await self._run(words, composed, (), work, token))[1]

    @asynccontextmanager
    async def run_prepared(
        self, composed: Composed, prepare: Callable[[Path], Prepared]
    ) -> AsyncIterator[tuple[Path, Ended]]:
        """Run what `prepare` adds to the folder of a run, and yield that folder and how the command ended."""
        async with self._slots, self._workplace() as (work, token):
            _, ended = await self._run((), composed, (), work, token, prepare)
            yield work, ended

    async def _run(
        self,
        argv: tuple[str, ...],
        composed: Composed,
        armed: Sequence[Runner],
        work: Path,
        token: str,
        prepare: Callable[[Path], Prepared] | None = None,
        disguise: Disguise = Disguise.WATCHED,
        purpose: Purpose = WHOLE,
    ) -> tuple[Stage, Ended]:
        tree, hooks, reports = work / "tree", work / "hooks", work / "reports"
        watched = disguise is Disguise.WATCHED
        # Git's own hooks see what git has: another git compares it with its index.
        await self._write(composed, tree, as_stored=prepare is not None)
        within = (path for path in self._dependencies.visible if not path.startswith("/"))
        inputs = {path: self._trees.find(path) for path in within}
        inputs = {path: place for path, place in inputs.items() if place.exists()}
        built_at = None
        if self._environment is not None:
            inputs |= await asyncio.to_thread(place_installed, self._environment, tree)
            built_at = self._environment.place / "tree"
        prepared = await asyncio.to_thread(prepare, work) if prepare is not None else Prepared(argv)
        root = self._means.seen_at(tree)
        closed = not self.shares_network
        stage = Stage(prepared.argv, root, tree, hooks, reports, token, composed.tests, purpose, closed)
        env = self._variables(join_variables(runner.arm(stage) for runner in armed), token, watched)
        own = prepared.objects or await make_repository(tree, composed, self._objects)
        order = TreeCommand(
            prepared.argv,
            env,
            work,
            tree,
            self._options.network,
            self._options.timeout,
            inputs=inputs,
            built_at=built_at,
            guarded=_guarded(composed, purpose),
            is_open=composed.is_open,
            readable=(
                *((hooks,) if watched else ()),
                *(*self._dependencies.linked, *user_site_places(self._dependencies)),
                *prepared.readable,
            ),
            writable=(reports,) if watched else (),
            objects=own,
            watched=composed.entries.keys() if argv and watched else (),
            disguise=disguise,
        )
        return stage, await self._means.run(order)

    def _workplace(
        self, disguise: Disguise = Disguise.WATCHED
    ) -> AbstractAsyncContextManager[tuple[Path, str]]:
        elsewhere = isinstance(self._means, Copied) or disguise is Disguise.ORDINARY
        return workplace(self._scratch, elsewhere)

    def first_environment(self) -> Environment | None:
        """Return the environment that the run began with."""
        return self._setup.first() if self._setup is not None else None

    async def tear_down(self, composed: Composed) -> None:
        """Run the commands that follow a check; how they end does not matter."""
        async with self._workplace() as (work, _):
            await self._write(composed, work / "tree")
            for command in self._options.teardown:
                await self._run_open(command, work / "tree")

    async def _write(self, composed: Composed, tree: Path, as_stored: bool = False) -> None:
        filters = None if as_stored else await self._objects.filters()
        await write_tree(self._objects, composed.entries, tree, filters)
        with Beneath(tree) as folder:  # the tree may have links that an agent committed
            for path, text in composed.texts.items():
                folder.write(path, text, durable=False)
        place_copies(self._inputs, self._scratch, tree)

    async def _run_open(self, argv: Sequence[str], tree: Path) -> Ended:
        """Run a setup command: with the network, and free to write the tree."""
        env = environment({}, network=True)
        async with self._workplace() as (work, _):
            order = TreeCommand(tuple(argv), env, work, tree, True, self._options.timeout)
            return await self._means.run(order)

    def _variables(self, variables: Mapping[str, str], token: str, watched: bool) -> dict[str, str]:
        # It has a temporary folder of its own, but with `check_network` not its own ports.
        lane = {name: value for name, value in lane_variables(self._trees.root).items() if name != "TMPDIR"}
        if not watched:
            if isinstance(self._means, Mounted) and not self._options.network:
                lane = {}
            lane |= {name: value for name in _TOOLCHAINS if (value := os.environ.get(name))}
        env = environment({**lane, **variables}, self._options.network)
        env["UV_NO_SYNC"] = "1"  # it would build the project again, which needs the network
        if not self._dependencies.user_site:
            env["PYTHONNOUSERSITE"] = "1"
        if self._dependencies.compiled:
            # Everything is compiled again, because compiled files of dependencies are not as they were.
            env["PYTHONPYCACHEPREFIX"] = f"/tmp/{token}"  # noqa: S108 - inside of the sandbox
        return env


def _guarded(composed: Composed, purpose: Purpose) -> tuple[str, ...]:
    """Return what the command cannot write. The sources of tests that are built in may be taken away."""
    return tuple(path for path in composed.guarded if not (purpose.blind and path.endswith("_test.go")))


@asynccontextmanager
async def workplace(scratch: Path, elsewhere: bool) -> AsyncIterator[tuple[Path, str]]:
    """Yield a folder for one run, and a random word.

    Elsewhere: in a temporary folder, so that no tool that looks into the folders above finds something there.
    """
    token = f"s{secrets.token_hex(6)}"
    runs = private_folder(scratch / "runs")
    own = work = runs / f"{os.getpid()}-{token}"
    if elsewhere:
        work = Path(os.path.realpath(tempfile.mkdtemp(prefix=TEMPORARY_CHECK)))
        own.symlink_to(work)
    try:
        for name in ("hooks", "reports"):
            private_folder(work / name)
        yield work, token
    finally:
        await asyncio.to_thread(_clear, own)


def sweep(scratch: Path) -> None:
    """Delete what checks have left whose process was killed."""
    unfinished = [place for place in scratch.glob("setup/*/*-s*") if not (place / "installed.json").exists()]
    for own in (*(scratch / "runs").glob("*-s*"), *unfinished):
        pid = own.name.partition("-")[0]
        if pid.isdigit() and start_time(int(pid)) is None:
            _clear(own)


def _clear(own: Path) -> None:
    shutil.rmtree(os.path.realpath(own), ignore_errors=True)
    if own.is_symlink():
        own.unlink()


def with_script(argv: Sequence[str], script: Path | None, folder: Path) -> tuple[str, ...]:
    """Return the command, with a copy of the script after its first word."""
    if script is None:
        return tuple(argv)
    copy = folder / script.name
    copy.write_bytes(script.read_bytes())
    return (argv[0], str(copy), *argv[1:])


def observe(stage: Stage, armed: Sequence[Runner], ended: Ended) -> Observed:
    """Return how a run ended, with its report."""
    report = read_report(armed, stage, ended)
    parts = (cut_tail(part.rstrip(), 32 * 1024) for part in (ended.out, ended.err) if part.strip())
    output = "\n".join(parts)
    blind = stage.token in output and report is None
    for runner in armed:
        output = runner.clean(output)
    names = tuple(runner.name for runner in armed)
    kept = cut_tail(output, 64 * 1024)
    return Observed(ended.exit_code, report, kept, names, blind, ended.changed, ended.opened)


def environment(variables: Mapping[str, str], network: bool) -> dict[str, str]:
    """Return what a check's environment has: the allowed variables, and those of its runners."""
    env = inside_environment(extra=variables)
    for name in (*_DROPPED, *(() if network else _PROXIES)):
        env.pop(name, None)
    return env


def join_variables(several: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return the variables of several runners as one: paths joined by colons, others by spaces."""
    joined: dict[str, list[str]] = {}
    for variables in several:
        for name, value in variables.items():
            known = joined.setdefault(name, [])
            if value not in known:
                known.append(value)
    return {
        name: (os.pathsep if name.endswith("PATH") else " ").join(values) for name, values in joined.items()
    }


def find_program(argv: Sequence[str], root: Path) -> Path | None:
    """Return the program that the command starts; None if there is none, so that it cannot be run."""
    name = argv[0] if argv else ""
    if "/" in name:
        path = root / name
        return path if path.is_file() and os.access(path, os.X_OK) else None
    found = find_inside(name)
    return Path(found) if found else None
