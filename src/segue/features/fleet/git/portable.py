"""A run's clone as a value: packed on one machine, unpacked on another, and its branch pushed.

What is packed is a git bundle of everything beyond a base commit: where HEAD is, all branches, Segue's own
refs, and what is uncommitted. That is a commit under `refs/segue/uncommitted`, with the exact bytes of the
files; `refs/segue/staged` has what was staged, if something was.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from segue.domain.errors import AGAIN, Unavailable, WorkspaceError
from segue.features.fleet.git.addresses import hint_for_remote
from segue.features.fleet.git.bundles import (
    BASE,
    MOST_BYTES,
    PATIENCE,
    PLAIN,
    PROTOCOLS,
    QUIET_FETCH,
    as_file,
    make_bundle,
    read_refs_of,
    too_large,
)
from segue.system.files import brief_folder, read_start, write_atomic
from segue.system.git.folders import COMMIT, common_dir, read_branch, read_refs
from segue.system.git.index import parse_status, shown
from segue.system.git.lanes import delete_files
from segue.system.git.repository import Repository

_UNCOMMITTED, _STAGED, _HEAD = "refs/segue/uncommitted", "refs/segue/staged", "refs/segue/head"
_MADE_HERE = frozenset((_UNCOMMITTED, _STAGED, _HEAD, BASE))
_PLACES = ("refs/heads/", "refs/segue/")
_LOOK = (
    "status",
    "--porcelain=v2",
    "-z",
    "--untracked-files=all",
    "--no-renames",
    "--ignore-submodules=dirty",
)
_FAST = ("-c", "core.fsync=none")
"""For what is also kept elsewhere, or can be made again."""
_AS_THEY_ARE = b"* !text !eol !crlf !ident !filter !working-tree-encoding\n"
"""Attributes with which git writes the bytes that it has."""
_GITLINK, _NOTHING = b"160000", b"000000"
_COMMITTER = b"committer Segue <segue@localhost> 0 +0000\n"
"""Without a time, so that the same work is the same commit."""
_BRANCH = re.compile(r"segue/[\w][\w./+-]*")


class Packed(msgspec.Struct, frozen=True):
    """What a clone has beyond its base commit."""

    data: bytes
    """A git bundle."""
    head: str
    """The branch that HEAD is on; the commit when it is on none."""
    digest: str
    """The same for the same state."""
    left_out: tuple[str, ...] = ()
    """Repositories inside of this one, which no commit can hold."""


class _Changes(msgspec.Struct):
    """What is uncommitted, as commands for `git fast-import`."""

    work: list[bytes] = []
    staged: list[bytes] = []
    left_out: list[bytes] = []


async def pack(repo: Repository, base: str, before: str = "", most: int = MOST_BYTES) -> Packed | None:
    """Return what a clone has beyond its base commit; None if that is the state with the digest `before`.

    Neither HEAD nor the index nor a file changes. Ignored files are not packed.
    """
    known = read_refs(common_dir(repo.git_dir), own=True)
    branch, head = read_branch(repo.git_dir, known)
    if not COMMIT.fullmatch(head):
        raise WorkspaceError(f"{repo.root} is on no commit that can be packed.", kept="Nothing was changed.")
    refs = {name: commit for name, commit in known.items() if _is_packed(name) and COMMIT.fullmatch(commit)}
    refs |= {_HEAD: head, BASE: base}
    recent = repo.recent()
    is_clean = recent is not None and not recent.dirty and recent.head == head
    said = b"" if is_clean else (await repo.run(*_LOOK, *repo.without_own())).out
    seen = await asyncio.to_thread(parse_status, repo.root, said)
    place = _digest(branch, *(f"{commit} {name}" for name, commit in sorted(refs.items())))
    digest, left_out = place, tuple[str, ...]()
    if seen.dirty:
        note, look = repo.git_dir / "segue-packed", _digest(place, seen.dirty)
        if before and read_start(note) == f"{look} {before}".encode():
            return None
        rest, left_out = await _commit_rest(repo, head, said, most)
        refs |= rest
        digest = _digest(place, *rest.values())
        # So that the same uncommitted files are not read again after every step.
        write_atomic(note, f"{look} {digest}".encode(), durable=False)
    if digest == before:
        return None
    return Packed(await make_bundle(repo, refs, base, most), branch or head, digest, left_out)


async def unpack(repo: Repository, packed: Packed) -> None:
    """Bring a clone that has the base commit exactly into the packed state; ignored files stay.

    Whatever else is there is removed. Killed half-way, it can be repeated.
    """
    refs = _read_refs(packed)
    await repo.recover(0.0)
    with as_file(packed.data) as bundle:
        exactly = ("--prune", "--atomic", "--update-head-ok")
        await repo.run(*_FAST, *QUIET_FETCH, *exactly, bundle, *(f"+{place}*:{place}*" for place in _PLACES))
    where = ["--detach", packed.head] if COMMIT.fullmatch(packed.head) else [packed.head]
    await repo.git("checkout", "--quiet", "--force", *where, "--")
    with brief_folder() as folder:
        index = shutil.copy2(repo.git_dir / "index", folder / "index")
        extra = {"GIT_INDEX_FILE": str(index)}
        if rest := refs.get(_UNCOMMITTED):
            await _lay(repo, refs[_HEAD], rest, extra)
        await repo.git("clean", "--quiet", "-ffd", *repo.without_own(), extra=extra)
    if staged := refs.get(_STAGED):
        await repo.git("read-tree", "--reset", staged)


async def _lay(repo: Repository, head: str, rest: str, index: Mapping[str, str]) -> None:
    """Give the files that differ between two commits the exact bytes of the second."""
    changes = await repo.objects().changes(head, rest)
    await asyncio.to_thread(delete_files, repo.root, [one.path for one in changes if one.removed])
    paths = b"\0".join(os.fsencode(one.path) for one in changes if not one.removed)
    if paths:
        listed = ("--pathspec-from-file=-", "--pathspec-file-nul")
        await repo.objects().git(
            "--literal-pathspecs",
            "checkout",
            "--quiet",
            "--force",
            *listed,
            rest,
            stdin=paths,
            variables={**index, "GIT_WORK_TREE": str(repo.root)},
            where=repo.root,
            attributes=_AS_THEY_ARE,
        )


async def deliver(repo: Repository, branch: str) -> str:
    """Push a branch of Segue's to origin, never by force, and say what happened.

    Raises Unavailable when the remote cannot even be read; one that only refuses the branch is there.
    """
    _check_branch(branch)
    url = await repo.remote_url()
    if url is None:
        raise WorkspaceError(f"{repo.root} has no remote to push {branch} to.", kept="The work is there.")
    ref, said = f"refs/heads/{branch}", ""
    push = ("push", "--porcelain", "--no-verify", "--no-follow-tags", "--recurse-submodules=no", "origin")
    for _ in range(2):  # who can be read afterwards may have been away before
        done = await repo.try_git(*push, f"{ref}:{ref}", extra={**PLAIN, **PROTOCOLS}, timeout=PATIENCE)
        said = done.out.decode("utf-8", "replace")
        flag = next((line[:1] for line in said.splitlines() if line[1:2] == "\t"), "")
        if done.exit_code == 0 and flag == "=":
            return f"Branch {branch} was on the remote already."
        if done.exit_code == 0:
            return f"Branch {branch} was pushed" + (" as a new branch." if flag == "*" else ".")
        said = f"{said}\n{done.err.decode('utf-8', 'replace')}"
        asked = await repo.try_git("ls-remote", "origin", ref, extra={**PLAIN, **PROTOCOLS}, timeout=PATIENCE)
        if asked.exit_code != 0:
            raise Unavailable("the git remote", f"{said.strip()[-500:]} {hint_for_remote(said)}".strip())
        if flag:  # it answered
            break
    raise _not_pushed(branch, said)


def _read_refs(packed: Packed) -> dict[str, str]:
    """Return the refs of packed work; refuse what was not packed here."""
    refs = read_refs_of(packed.data)
    if {_HEAD, BASE} <= refs.keys() and (packed.head == refs[_HEAD] or f"refs/heads/{packed.head}" in refs):
        return refs
    raise WorkspaceError(
        "The stored work is damaged: it does not say where it is.", kept="Nothing was changed."
    )


def _is_packed(name: str) -> bool:
    return name.startswith(_PLACES) and name not in _MADE_HERE


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:32]


async def _commit_rest(
    repo: Repository, head: str, said: bytes, most: int
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Make commits of what is uncommitted; also return what they cannot hold."""
    changes = await asyncio.to_thread(_read_changes, repo, said, most)
    stream = b"".join(_commit(_UNCOMMITTED, head, 1, changes.work))
    if changes.staged:
        stream += b"".join(_commit(_STAGED, head, 2, changes.staged))
    importing = ("fast-import", "--quiet", "--force", "--date-format=raw")
    done = await repo.run(*_FAST, *importing, stdin=stream + b"done\n")
    names = (_UNCOMMITTED, _STAGED) if changes.staged else (_UNCOMMITTED,)
    return dict(zip(names, done.out.decode().split(), strict=True)), tuple(map(shown, changes.left_out))


def _commit(ref: str, head: str, mark: int, commands: Sequence[bytes]) -> Iterator[bytes]:
    message = b"Uncommitted work\n"
    yield b"commit %b\nmark :%d\n%b" % (ref.encode(), mark, _COMMITTER)
    yield b"data %d\n%bfrom %b\n" % (len(message), message, head.encode())
    # Deletions first: a file may have become a folder, or the other way round.
    yield from sorted(commands, key=lambda command: command[:1] != b"D")
    yield b"\nget-mark :%d\n" % mark


def _read_changes(repo: Repository, said: bytes, most: int) -> _Changes:
    """Read the files that git found changed."""
    found, sizes = _Changes(), {}
    entries = [_parse(entry) for entry in said.split(b"\0") if entry[:2] in (b"1 ", b"u ", b"? ")]
    for path, *_ in entries:
        sizes[shown(path)] = _size(repo, path)
    if sum(sizes.values()) > most:
        raise too_large(repo, most, sizes)
    for path, mode, blob, in_work in entries:
        name = _quote(path)
        if mode:
            found.staged.append(_remove(name) if mode == _NOTHING else b"M %b %b %b\n" % (mode, blob, name))
        if in_work == _GITLINK:
            if mode == _GITLINK:
                found.work.append(found.staged[-1])
            else:
                found.left_out.append(path)
        elif path.endswith(b"/"):
            found.left_out.append(path)
        elif in_work == _NOTHING:
            found.work.append(_remove(name))
        else:
            found.work += _read(repo, path, name)
    return found


def _parse(entry: bytes) -> tuple[bytes, bytes, bytes, bytes]:
    """Return the path of an entry, mode and blob of what is staged, if any, and the mode of the file."""
    if entry[:1] == b"1":
        _, changed, _, _, mode, in_work, _, blob, path = entry.split(b" ", 8)
        return (path, mode, blob, in_work) if changed[:1] != b"." else (path, b"", b"", in_work)
    if entry[:1] == b"u":
        fields = entry.split(b" ", 10)
        return fields[10], b"", b"", fields[6]
    return entry[2:], b"", b"", b""


def _read(repo: Repository, path: bytes, name: bytes) -> list[bytes]:
    """Return the commands that give a path what it is now; what it was goes first."""
    place = Path(os.fsdecode(_place(repo, path)))
    try:
        mode = place.lstat().st_mode
        if stat.S_ISLNK(mode):
            data, kind = os.fsencode(place.readlink()), b"120000"
        elif stat.S_ISREG(mode):
            data, kind = (
                place.read_bytes(),
                b"100755" if mode & stat.S_IXUSR else b"100644",
            )
        else:
            return [_remove(name)]
    except (FileNotFoundError, NotADirectoryError):
        return [_remove(name)]
    except OSError as error:
        raise WorkspaceError(
            f"{shown(path)} cannot be read: {error.strerror}.", kept="Nothing was changed."
        ) from None
    return [b"M %b inline %b\ndata %d\n%b\n" % (kind, name, len(data), data)]


def _remove(name: bytes) -> bytes:
    return b"D %b\n" % name


def _quote(path: bytes) -> bytes:
    return b'"%b"' % path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")


def _place(repo: Repository, path: bytes) -> bytes:
    return os.fsencode(repo.root) + b"/" + path


def _size(repo: Repository, path: bytes) -> int:
    try:
        found = os.lstat(_place(repo, path))
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def _check_branch(name: str) -> None:
    """Refuse to touch a branch that is not Segue's."""
    if not _BRANCH.fullmatch(name) or ".." in name or "//" in name or name.endswith(("/", ".", ".lock")):
        raise WorkspaceError(
            f"{name!r} is not the name of a branch of Segue's.",
            kept="Nothing was changed.",
            hint="Name one that begins with segue/",
        )


def _not_pushed(branch: str, said: str) -> WorkspaceError:
    if "[rejected]" in said:
        hint = f"Somebody else has pushed to it. Rename that branch on the remote, then {AGAIN}"
    else:
        hint = hint_for_remote(said)
    return WorkspaceError(
        f"Branch {branch} could not be pushed: {said.strip()[-2000:]}",
        kept="The work is in the clone and in the database.",
        hint=hint,
    )
