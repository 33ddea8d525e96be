"""The branches of a bare git repository: read them, compare them, merge one into another."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from segue.system.process.capture import Captured, capture, child_environment

_TIMEOUT = 120.0
_AUTHOR = {
    "GIT_AUTHOR_NAME": "GitHub",
    "GIT_AUTHOR_EMAIL": "noreply@github.com",
    "GIT_COMMITTER_NAME": "GitHub",
    "GIT_COMMITTER_EMAIL": "noreply@github.com",
    "GIT_TERMINAL_PROMPT": "0",
}


class CommitFacts(Struct, frozen=True):
    """A commit as the API shows it."""

    sha: str
    parents: list[str]
    author: str
    email: str
    date: str
    message: str


class ChangedFile(Struct, frozen=True):
    """A file that a pull request changes."""

    name: str
    status: str
    additions: int
    deletions: int


class BareBranches(Struct, frozen=True):
    """A bare repository."""

    path: Path

    async def read(self) -> dict[str, str]:
        """Return every branch and its commit."""
        shown = await self._git("for-each-ref", "--format=%(refname:strip=2) %(objectname)", "refs/heads")
        pairs = (line.rpartition(" ") for line in shown.out.decode().splitlines())
        return {name: sha for name, _, sha in pairs}

    async def find_default(self) -> str | None:
        """Return the branch that HEAD names."""
        return (await self._git("symbolic-ref", "--short", "HEAD")).out.decode().strip() or None

    async def can_merge(self, base: str, head: str) -> bool:
        """Return whether a merge has no conflict."""
        return (await self._git("merge-tree", "--write-tree", base, head)).exit_code == 0

    async def contains(self, commit: str, other: str) -> bool:
        """Return whether the commit contains the other one."""
        return (await self._git("merge-base", "--is-ancestor", other, commit)).exit_code == 0

    async def merge(self, branch: str, base: str, head: str, message: str, method: str) -> str | None:
        """Merge the head into the branch and return the new commit; None if there is a conflict."""
        tree = await self._git("merge-tree", "--write-tree", base, head)
        if tree.exit_code != 0:
            return None
        parents = ["-p", base] + (["-p", head] if method == "merge" else [])
        made = await self._git("commit-tree", tree.out.decode().split()[0], *parents, "-m", message)
        commit = made.out.decode().strip()
        moved = await self._git("update-ref", f"refs/heads/{branch}", commit, base)
        return commit if moved.exit_code == 0 else None

    async def update(self, branch: str, base: str, head: str) -> str | None:
        """Merge the base into a pull request's branch and return the new commit."""
        return await self.merge(branch, head, base, f"Merge {base[:7]} into {branch}", "merge")

    async def delete(self, branch: str) -> None:
        """Delete a branch."""
        await self._git("update-ref", "-d", f"refs/heads/{branch}")

    async def resolve(self, ref: str) -> str | None:
        """Return the commit that a name stands for."""
        name = f"{ref}^{{commit}}"
        done = await self._git("rev-parse", "--verify", "--quiet", "--end-of-options", name)
        return done.out.decode().strip() or None

    async def list_commits(self, base: str, head: str) -> list[CommitFacts]:
        """Return the commits of a pull request, oldest first."""
        form = "%H%x00%P%x00%an%x00%ae%x00%aI%x00%B%x01"
        shown = await self._git("log", "--reverse", f"--format={form}", f"{base}..{head}")
        found = []
        for entry in shown.out.decode("utf-8", "replace").split("\x01"):
            parts = entry.strip("\n").split("\0")
            if len(parts) == 6:
                sha, parents, author, email, date, message = parts
                found.append(CommitFacts(sha, parents.split(), author, email, date, message.strip()))
        return found

    async def list_files(self, base: str, head: str) -> list[ChangedFile]:
        """Return the files that a pull request changes."""
        states = await self._git("diff", "--name-status", "--no-renames", "-z", f"{base}...{head}")
        counts = await self._git("diff", "--numstat", "--no-renames", "-z", f"{base}...{head}")
        words = states.out.decode("utf-8", "replace").split("\0")
        status = dict(zip(words[1::2], words[0::2], strict=False))
        found = []
        for line in counts.out.decode("utf-8", "replace").split("\0"):
            added, _, rest = line.partition("\t")
            removed, _, name = rest.partition("\t")
            if name:
                kind = {"A": "added", "D": "removed"}.get(status.get(name, ""), "modified")
                found.append(ChangedFile(name, kind, _number(added), _number(removed)))
        return found

    async def _git(self, *args: str) -> Captured:
        return await capture(["git", *args], self.path, child_environment(extra=_AUTHOR), _TIMEOUT)


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0
