"""Branches chained from task to task: local ones for agents on this machine, remote ones for cloud agents."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct, structs

from segue.domain.errors import AGAIN, Unfinished, WorkspaceError
from segue.domain.workspace import Snapshot, WorkChanges
from segue.system.git.objects import GITLINK
from segue.system.git.put_back import put_back
from segue.system.git.recovery import undo_killed_switch
from segue.system.git.remotes import PushRemote, fetched_from, pushed_to
from segue.system.git.repository import Repository
from segue.system.git.worktree import LinkedTree

_log = logging.getLogger(__name__)

REMOTE = "origin"
"""The remote that cloud agents work on."""
_CHAIN = "refs/segue/chain"
"""The head of the chain of remote branches, kept in the user's repository outside its branches."""
_LANES = "refs/segue/lanes"
"""Where the lanes of a run keep what no branch contains yet."""
TASK = "Segue-Task"
"""The trailer that names the task of a commit."""
UNDONE = "Segue-Undo: "
"""Begins the trailer of a commit that puts back what an agent must not change."""
_PAUSES = (0.0, 0.1, 0.5, 1.0)
"""Seconds before each try: another lane may be fetching or pushing the same branch at this moment."""


class LocalBranches:
    """A branch per task in the user's own work tree; each starts where the last one ended."""

    def __init__(self, repo: Repository, prefix: str) -> None:
        """`prefix` is the part of a branch name before the task's key: `segue/001-login`."""
        self.repo, self.prefix, self.root = repo, prefix, repo.root
        self.snapshot, self.changes, self.diff = repo.snapshot, repo.changes, repo.diff
        self.tree, self.patch, self.tree_of = repo.tree, repo.patch, repo.tree_of
        self.commit, self.find_commit = repo.commit, repo.find_commit
        self.set_aside, self.checkout = repo.set_aside, repo.checkout

    async def begin(self, key: str, head_branch: str | None) -> Snapshot:
        """Switch to the task's branch, which is created from the head of the chain or the current commit."""
        name = f"{self.prefix}/{_slug(key)}"
        now = await self.repo.snapshot()
        if now.branch != name:
            now = await self._undo_killed_switch(now, name, head_branch)
            await self._leave(now)
            if await self.repo.has_branch(name):
                await self.repo.git("switch", "--quiet", name)
                await self._catch_up(head_branch)
            else:
                await self.repo.git(
                    "switch", "--quiet", "--create", name, await self._start(now, head_branch)
                )
            now = await self.repo.snapshot()
        return now

    async def _undo_killed_switch(self, now: Snapshot, name: str, head_branch: str | None) -> Snapshot:
        for target in (name, head_branch) if now.dirty else ():
            if target and await self.repo.has_branch(target):
                tip = (await self.repo.git("rev-parse", f"refs/heads/{target}")).strip()
                if await undo_killed_switch(self.repo, now, tip):
                    return await self.repo.snapshot()
        return now

    async def _start(self, now: Snapshot, head_branch: str | None) -> str:
        """Return the head of the chain; for the first task, the commit the user was on when it began."""
        if head_branch and await self.repo.has_branch(head_branch):
            return head_branch
        setting = f"segue.{self.prefix}.start"
        if now.branch.startswith(f"{self.prefix}/"):
            return await self.repo.setting(setting) or "HEAD"
        await self.repo.set(setting, now.head)
        return "HEAD"

    async def _catch_up(self, head_branch: str | None) -> None:
        """Bring the branch of a task that has no commits of its own to what others have done since."""
        if not head_branch or not await self.repo.has_branch(head_branch):
            return
        tip, head = await self.repo.branch_head(head_branch), await self.repo.head()
        if head != tip and await self.repo.objects().is_ancestor(head, tip):
            await self.repo.git("merge", "--quiet", "--ff-only", "--no-overwrite-ignore", tip)

    async def _leave(self, now: Snapshot) -> None:
        """Commit what an unfinished task left, so that it stays on that task's branch."""
        if now.dirty and now.branch.startswith(f"{self.prefix}/"):
            await self.repo.commit(f"Unfinished work of {now.branch.removeprefix(self.prefix + '/')}\n")

    async def arrive(self, branches: Sequence[str], before: Snapshot) -> Snapshot:  # noqa: ARG002
        """Return what a launch left: a snapshot of the work tree."""
        return await self.repo.snapshot()


class RemoteBranches(Struct, frozen=True):
    """Branches that cloud agents push; the user's own work tree is never touched."""

    repo: Repository
    remote: str
    scratch: Path
    """A folder of Segue's own for temporary work trees."""
    start: str = ""
    """The branch that the first task starts from; empty: the default branch."""
    run: str = ""
    """The branch of the run, on which the work of several lanes comes together; empty: tasks are chained."""
    lane: int = 0
    """The lane; its tasks start from a branch of their own on the remote, which nobody else moves."""
    chain: str = _CHAIN
    """The ref that keeps what was fetched last."""
    address: str = ""
    """Where the remote was when the run began, as `PushRemote` tells it: only that place is believed."""
    work: Callable[[], str | None] | None = None
    """Returns the commit with the work so far, as far as somebody wrote it down."""
    tell: Callable[[str], Awaitable[None]] | None = None
    """Gets what to say when the remote is elsewhere now; the same each time."""

    @property
    def root(self) -> Path:
        """The repository whose remote the agents work on."""
        return self.repo.root

    def in_lane(self, number: int, run: str) -> RemoteBranches:
        """Return the same for one of several lanes, whose tasks start from the branch of the run."""
        return structs.replace(self, run=run, lane=number, chain=f"{_LANES}/{run}/{number}")

    async def begin(self, key: str, head_branch: str | None, *, named: bool = True) -> Snapshot:  # noqa: ARG002
        """Return the head of the chain on the remote; at first, and once it contains the chain, the start.

        Of a branch that was deleted the start must contain the work; if nobody can tell, a person must have
        `named` it.
        """
        if self.run:
            name = f"{self.run}-lane-{self.lane}" if self.lane else self.run
            return Snapshot(await self.publish(name), name, "")
        start = self.start or await self.default_branch()
        if head_branch is None or head_branch == start:
            return Snapshot(await self._find(start), start, "")
        # Work of local agents may have been merged and pushed without a push of its own branch.
        head = await self.fetch(head_branch) or await self.repo.branch_head(head_branch)
        merged = await self.fetch(start) if self.start else None
        if merged and await self._contains(merged, head or (self.work() if self.work else None), named=named):
            return Snapshot(merged, start, "")
        return Snapshot(await self._find(head_branch), head_branch, "")

    async def _contains(self, head: str, work: str | None, *, named: bool) -> bool:
        """Return whether a commit contains the work of another one, merged as it is or as one commit."""
        objects = self.repo.objects()
        if not work or not await objects.has(work):
            return named
        if await objects.is_ancestor(work, head):
            return True
        fork = (await objects.git("merge-base", work, head, codes=(0, 1))).out.decode().strip()
        done = {one.path for one in await objects.changes(fork, work)} if fork else set()
        return bool(done) and done.isdisjoint(one.path for one in await objects.changes(work, head))

    async def find_tasks(self, head: str) -> dict[str, set[str]]:
        """Return the tasks that commits name which are on branches of the remote and not in `head`."""
        refs, remote = f"{self.chain}-looked", await self._find_remote()
        await self.repo.git("fetch", "--quiet", "--no-tags", "--prune", remote, f"+refs/heads/*:{refs}/*")
        names = (await self.repo.git("for-each-ref", "--format=%(refname)", f"{refs}/")).split()
        found = {}
        for name in names:
            said = await self.repo.git("log", f"--format=%(trailers:key={TASK},valueonly)", f"{head}..{name}")
            found[name.removeprefix(f"{refs}/")] = set(said.split())
        forgotten = "".join(f"delete {name}\n" for name in names)
        await self.repo.git("update-ref", "--stdin", stdin=forgotten.encode())
        return found

    async def publish(self, name: str = "") -> str:
        """Push the branch of the run, as `name`, never by force; return its commit."""
        name, said = name or self.run, ""
        ref, remote = f"refs/heads/{name}", await self._find_remote(pushes=True)
        for pause in _PAUSES:
            await asyncio.sleep(pause)
            # It may have advanced meanwhile, and another lane has pushed that.
            head = await self.repo.branch_head(self.run)
            if not head:  # to push nothing would delete the branch on the remote
                raise WorkspaceError(f"Branch {self.run} is missing.", kept="Nothing was pushed.")
            try:
                await self.repo.git("push", "--quiet", "--no-follow-tags", remote, f"{head}:{ref}")
                return head
            except WorkspaceError as error:
                said = error.message
            _log.info("branch %s could not be pushed; looking whether to try again", name)
            if (await self.repo.git("ls-remote", remote, ref)).startswith(head):
                return head
        raise WorkspaceError(
            f"Branch {name} could not be pushed to {self.remote}. {said}",
            kept=f"The work is on branch {self.run} of your repository.",
            hint=f"Fix what git reports, then {AGAIN}",
        )

    async def _find_remote(self, pushes: bool = False) -> str:
        """Return the remote by its name, or the place where it was if that name leads elsewhere now."""
        remote = PushRemote(self.repo, self.remote)
        now = await remote.address() if self.address else ""
        if now == self.address:
            return self.remote
        if self.tell is not None:
            said = (
                f"The remote {self.remote} was {self.address} when the run began and is {now or 'gone'} now."
            )
            await self.tell(f"{said} Segue keeps to the former; if you moved it, start a new run.")
        return (pushed_to if pushes else fetched_from)(self.address)

    async def _find(self, branch: str) -> str:
        head = await self.fetch(branch)
        if head is None:
            raise WorkspaceError(
                f"Branch {branch} does not exist on {self.remote}.",
                kept="Nothing was launched.",
                hint="Push it again, or name the branch that contains its work: --base BRANCH",
            )
        return head

    async def arrive(self, branches: Sequence[str], before: Snapshot) -> Snapshot:
        """Return what a launch pushed: nothing, or one new branch; raises if there are several."""
        if not branches:
            return before
        named = list(dict.fromkeys(branches))
        fresh = [branch for branch in named if branch != before.branch] or named
        if len(fresh) > 1:
            raise WorkspaceError(
                f"The agent pushed several branches: {', '.join(fresh)}.",
                kept="All of them are on the remote.",
                hint=f"Set head_branch in state.json to the one to continue from, then {AGAIN}",
            )
        try:
            head = await self.fetch(fresh[0])
        except WorkspaceError as error:
            raise Unfinished(
                f"Branch {fresh[0]}, which the agent pushed, could not be fetched: {error.message}",
                reason=error.message,
                kept="Its work is on the remote; on resume only the fetch is repeated.",
                hint=f"Fix what git reports, then {AGAIN}",
            ) from error
        if head is None:
            raise WorkspaceError(
                f"The agent named branch {fresh[0]}, but it does not exist on {self.remote}.",
                kept="Earlier work is on the remote.",
            )
        if before.head and not await self._follows(before.head, head):
            raise WorkspaceError(
                f"Branch {fresh[0]} does not contain {before.head[:10]}, which the agent started from.",
                kept="Both are on the remote.",
            )
        return Snapshot(head, fresh[0], "")

    async def _follows(self, before: str, head: str) -> bool:
        """Return whether a branch contains what was there before; a commit of ours may have been left out."""
        objects = self.repo.objects()
        if await objects.is_ancestor(before, head):
            return True
        parent = await self.before_undo(before)
        return bool(parent) and await objects.is_ancestor(parent, head)

    async def read(self, commit: str, path: str) -> bytes | None:
        """Return what a file contains in a commit; None if it is not there."""
        done = await self.repo.objects().git("cat-file", "blob", f"{commit}:{path}", codes=(0, 128))
        return done.out if done.exit_code == 0 else None

    async def before_undo(self, commit: str, mark: str = "") -> str:
        """Return the commit before one that puts files back; empty if this is another one."""
        said = await self.repo.git("log", "-1", "--format=%P%n%B", commit)
        parent, _, message = said.partition("\n")
        return parent if f"\n{UNDONE}{mark}" in message else ""

    async def put_back(
        self, now: Snapshot, base: str, files: Mapping[str, bytes | None], message: str, mark: str
    ) -> Snapshot:
        """Push a commit to the agent's branch in which files are as in `base`, or contain what is given."""
        made = await put_back(self.repo, now.head, base, files, f"{message}\n\n{UNDONE}{mark}\n")
        ref = f"refs/heads/{now.branch}"
        try:
            remote = await self._find_remote(pushes=True)
            await self.repo.git("push", "--quiet", "--no-follow-tags", remote, f"{made}:{ref}")
        except WorkspaceError as error:
            raise Unfinished(
                f"The agent changed {', '.join(files)} on branch {now.branch}, and that could not be taken "
                f"back: {error.message}",
                reason=error.message,
                kept="Its work is on the remote; on resume only this is repeated.",
                hint=f"Make it possible to push to that branch, then {AGAIN}",
            ) from error
        await self.repo.git("update-ref", self.chain, made)
        return Snapshot(made, now.branch, "")

    async def snapshot(self) -> Snapshot:
        """Return a snapshot of the user's work tree, in which no agent works."""
        return await self.repo.snapshot()

    async def changes(self, base: Snapshot, now: Snapshot) -> WorkChanges:
        """Return what differs between two commits."""
        objects = self.repo.objects()
        if base.head == now.head:
            return WorkChanges()
        found = await objects.changes(base.head, now.head)
        return WorkChanges(
            files=tuple(one.path for one in found),
            links=tuple(one.path for one in found if one.mode_after == GITLINK != one.mode_before),
            conflicted=await objects.conflicted(base.head, now.head),
        )

    async def tree(self, now: Snapshot) -> str:
        """Return the commit that the agent pushed."""
        return now.head

    async def patch(self, base: str, now: Snapshot) -> tuple[str, str]:
        """Return the commit that the agent pushed, and how it differs from another."""
        return now.head, await self.repo.diff(base, now.head)

    async def tree_of(self, commit: str) -> str:
        """Return the commit itself."""
        return commit

    async def commit(self, message: str) -> str | None:  # noqa: ARG002 - the agent has committed
        """Do nothing: the agent has committed."""
        return None

    async def set_aside(self, message: str) -> str:  # noqa: ARG002 - there is no work tree
        """Do nothing: there is no work tree."""
        return ""

    async def find_commit(self, base: str, mark: str) -> str | None:  # noqa: ARG002
        """Return None: Segue makes no commits here."""
        return None

    async def diff(self, base: str, head: str) -> str:
        """Return the diff between two commits; branches on the remote may have diverged."""
        return await self.repo.diff(base, head)

    @asynccontextmanager
    async def checkout(self, head: str) -> AsyncIterator[Path]:
        """Yield a temporary work tree of the commit."""
        self.scratch.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.scratch, ignore_cleanup_errors=True) as parent:
            # Git knows it by this name, which no other has.
            tree = LinkedTree(self.repo, Path(os.path.realpath(parent)) / Path(parent).name)
            await tree.add(head)
            try:
                yield tree.folder
            finally:
                await tree.remove()

    async def default_branch(self) -> str:
        """Return the branch that the remote's HEAD points to."""
        said = await self.repo.git("ls-remote", "--symref", await self._find_remote(), "HEAD")
        found = re.search(r"^ref: refs/heads/(\S+)\tHEAD", said, re.MULTILINE)
        if not found:
            raise WorkspaceError(
                f"The remote {self.remote} has no default branch.",
                hint="Push a first branch, or set head_branch in state.json",
            )
        return found[1]

    async def fetch(self, branch: str) -> str | None:
        """Fetch a remote branch and return its commit; None if there is no such branch."""
        ref, remote = f"refs/heads/{branch}", await self._find_remote()
        for pause in _PAUSES:
            await asyncio.sleep(pause)
            try:
                # Kept, so that the next fetch only downloads what is new.
                await self.repo.fetch(remote, ref, self.chain)
                return (await self.repo.git("rev-parse", self.chain)).strip()
            except WorkspaceError as error:
                failed = error
            _log.info("branch %s could not be fetched; looking whether to try again", branch)
            if not await self.repo.git("ls-remote", remote, ref):
                return None
        raise failed


class RemoteLane(Struct, frozen=True):
    """A lane of cloud agents, who work on branches of their own."""

    branches: RemoteBranches

    async def start(self, commit: str) -> Snapshot:  # noqa: ARG002 - the branch may have moved on since
        """Push what all lanes have done so far, so that an agent can start there."""
        return await self.branches.begin("", None)

    async def lay(self, tree: str) -> None:
        """There is no work tree."""
        raise NotImplementedError

    async def keep(self, name: str) -> None:
        """Do nothing: what cloud agents have done stays on their branches."""


def joined_ref(run: str) -> str:
    """Return the ref that keeps the last merge of a run until its branch contains it."""
    return f"{_LANES}/{run}/joined"


async def forget_lanes(repo: Repository, run: str) -> None:
    """Remove the refs under which the lanes of a run have kept what no branch contained."""
    said = await repo.git("for-each-ref", "--format=delete %(refname)", f"{_LANES}/{run}/")
    if said:
        await repo.git("update-ref", "--stdin", stdin=said.encode())


def _slug(key: str) -> str:
    """Return a task's key as a part of a branch name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", key).strip("-.") or "task"
