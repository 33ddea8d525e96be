"""Run the repository's own hooks in the sandbox, as they were before, on what would be committed."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from segue.domain.proof import NOT_EXERCISED, CheckResult, CheckState
from segue.domain.source import HookedFile, HookRun
from segue.domain.text import cut_tail
from segue.proof.command import SHARED_OBJECTS
from segue.proof.compose import Comparison, Composed, Recipe
from segue.proof.execute import Prepared, Sandbox, SealOptions, environment
from segue.proof.git_copy import GitSource, make_git
from segue.proof.obstacles import find_network, find_obstacle, last_line, last_lines
from segue.proof.paths import Classifier, find_named
from segue.proof.runs import Observed
from segue.proof.trees import TreeEntry, list_tree, read_text
from segue.system.beneath import Beneath, UnsafeFile
from segue.system.files import private_folder, read_start, write_atomic
from segue.system.git.objects import Objects
from segue.system.isolation.places import program_places

COMMIT_HOOKS = ("pre-commit", "prepare-commit-msg", "commit-msg")
"""Those that decide about a commit before it is made, in the order in which git runs them."""
GIT_HOOKS = ".git/hooks"
_LARGEST_HOOK = 8 * 1024**2
_MOST_HOOKS = 500


class KeptHooks(Struct, frozen=True):
    """Where the hooks of a repository are."""

    place: str
    """Their folder, from the top of the work tree; those from elsewhere run as if they were git's own."""
    kept: str | None = None
    """The copy; None: the folder is in the work tree, and the tree that a task began with has it."""
    source: str | None = None
    """The folder itself, if it is neither git's own nor in the work tree."""

    @property
    def is_empty(self) -> bool:
        """Whether there is none, for all that is known without looking into a tree."""
        return self.kept is not None and not any(
            os.path.lexists(f"{self.kept}/{name}") for name in COMMIT_HOOKS
        )


def keep_hooks(root: Path, common_dir: Path, configured: str, folder: Path) -> KeptHooks:
    """Copy the hooks; `configured` is what git's setting `core.hooksPath` says, if it says anything."""
    shutil.rmtree(folder, ignore_errors=True)
    real, place = os.path.realpath(root), os.path.realpath(common_dir / "hooks")
    source = None
    if configured:
        place = os.path.realpath(root / Path(configured).expanduser())
        if place.startswith(f"{real}{os.sep}") and not place.startswith(f"{real}{os.sep}.git{os.sep}"):
            found = KeptHooks(os.path.relpath(place, real).replace(os.sep, "/"))
            return _note(folder, found)
        source = place
    kept = private_folder(folder / "files")
    _copy_hooks(Path(place), kept, real)
    return _note(folder, KeptHooks(GIT_HOOKS, str(kept), source))


def kept_hooks(folder: Path) -> KeptHooks | None:
    """Return what was kept before; None if nothing was."""
    try:
        return msgspec.json.decode((folder / "hooks.json").read_bytes(), type=KeptHooks)
    except (OSError, msgspec.MsgspecError):
        return None


def _note(folder: Path, found: KeptHooks) -> KeptHooks:
    write_atomic(private_folder(folder) / "hooks.json", msgspec.json.encode(found))
    return found


def _copy_hooks(source: Path, target: Path, root: str) -> None:
    """Copy files, with the folders that they are in; a link into the work tree stays one."""
    count = 0
    for here, _, files in os.walk(source):
        inside = os.path.relpath(here, source)
        (target / inside).mkdir(parents=True, exist_ok=True)
        for name in sorted(files):
            file, copy = Path(here, name), target / inside / name
            leads = Path(os.path.realpath(file))
            if name.endswith(".sample") or count >= _MOST_HOOKS:
                continue
            if file.is_symlink() and leads.is_relative_to(root) and not leads.is_relative_to(source.parent):
                copy.symlink_to(os.path.relpath(leads, Path(root, GIT_HOOKS, inside)))
            elif leads.is_file() and leads.stat().st_size <= _LARGEST_HOOK:
                shutil.copy2(leads, copy)
            count += 1


_SETTINGS = (
    *(".husky/**", ".pre-commit-config.yaml", "lefthook*.y*ml", ".lefthook*.y*ml", "lefthook*.toml"),
    *(".lintstagedrc*", "lint-staged.config.*", ".simple-git-hooks.*", ".overcommit.yml"),
    *(".commitlintrc*", "commitlint.config.*"),
)
"""What the usual tools behind hooks read, beside package.json."""
_STORES = (".cache/pre-commit", ".cache/prek")
"""Where such tools keep what they installed, in a home that is hidden otherwise."""
_WORD = re.compile(r"[^\s;&|()\"'`=<>]+")
_INTERPRETED = re.compile(
    r"(?:^|[\s;&|(])(?:\.|source|sh|bash|zsh|python3?|node|ruby|perl|php)\s+(?:-\w+\s+)*[\"']?([^\s;&|()\"']+)",
    re.M,
)
_PROGRAM = re.compile(r"(?<![\w.$}])/[\w.@+/-]+")
_KEPT_OUTPUT = 64 * 1024
_LARGEST = 16 * 1024**2
_MOST_FILES = 10_000
_RUN = r"""
reports=$1 tree=$2 folder=$3 messages=$4
export GIT_INDEX_FILE=.git/index GIT_EDITOR=: GIT_PREFIX=
run() {
    name=$1
    shift
    [ -f "$folder/$name" ] && [ -x "$folder/$name" ] || return 0
    echo "$name" >> "$reports/ran"
    "$folder/$name" "$@" > "$reports/$name" 2>&1 < /dev/null
}
git read-tree "$tree" && git add --update || exit 125
run pre-commit
code=$?
number=0
while [ $code = 0 ] && [ $number -lt "$messages" ]; do
    cp ".git/segue-message-$number" .git/COMMIT_EDITMSG
    run prepare-commit-msg .git/COMMIT_EDITMSG message && run commit-msg .git/COMMIT_EDITMSG && break
    number=$((number + 1))
    [ $number -lt "$messages" ] || code=1
done
git ls-files --cached -z > "$reports/index"
[ $code != 0 ] || cat .git/COMMIT_EDITMSG > "$reports/message"
exit $code
"""


class Commit(Struct, frozen=True):
    """A commit that is to be made."""

    base: str
    """What the task began with; empty: there was no commit yet."""
    tree: str
    messages: tuple[str, ...]
    """The message, and others to try if a hook refuses it."""
    author: tuple[str, str] = ("", "")


class _Seen(Struct, frozen=True):
    """How a run of hooks ended."""

    code: int | None
    name: str
    """The hook that decided; empty: none ran."""
    output: str
    message: str = ""
    files: Mapping[str, HookedFile | None] = {}
    began: bool = True
    """Whether a hook ran at all."""


class HookCheck(Struct, frozen=True):
    """Runs hooks on trees."""

    hooks: KeptHooks
    objects: Objects
    git_dir: Path
    options: SealOptions
    modules: frozenset[str] = frozenset()

    async def run(self, place: Sandbox, commit: Commit) -> HookRun | None:
        """Return what the hooks say about a commit; None: there are none."""
        base = await list_tree(self.objects, commit.base)
        if self.hooks.kept is None and not self._may_have_hooks(base):
            return None
        head = await list_tree(self.objects, commit.tree)
        comparison = Comparison(self.objects, await self._classify(base, head), base, head)
        composed = replace(await comparison.compose(Recipe("head", "head")), guarded=())
        seen = await self._try(place, commit, composed, head)
        if not seen.name:
            return None
        result = CheckResult(f"{seen.name} hook", seen.code, seen.output, CheckState.PASSED)
        result = replace(result, weaknesses=(NOT_EXERCISED,), changed=await comparison.control_changed())
        if seen.code != 0:
            state, reason = await self._explain(place, commit, seen, base)
            known = (result.command,) if state is CheckState.NOTHING else ()
            result = replace(result, state=state, reason=reason, known=known)
        return HookRun(result, seen.message, seen.files)

    def _may_have_hooks(self, base: Mapping[str, TreeEntry]) -> bool:
        folder = self.hooks.place
        # husky's own folder is beside the scripts, and git does not have it.
        above = folder.rpartition("/")[0] or folder
        return any(path.startswith((f"{folder}/", f"{above}/")) for path in base)

    async def _classify(self, base: Mapping[str, TreeEntry], head: Mapping[str, TreeEntry]) -> Classifier:
        """Tell what decides whether hooks pass: their own files, and the settings of their tools."""
        read = partial(read_text, self.objects, base)
        folders = (f"{self.hooks.place}/", ".husky/")
        scripts = [path for path in base if path.startswith(folders)]
        texts = [await read(path) for path in scripts]
        for file in self._kept_files():
            if file.is_symlink():
                scripts.append(self._lead(file))
                texts.append(await read(scripts[-1]))
            else:
                texts.append(read_start(file).decode("utf-8", "replace"))
        words = [word for text in texts for word in _started(text, base)]
        named = await find_named(("sh", *scripts, *words), {**head, **base}.keys(), read)
        # What a hook is made of decides about a commit: none of it is a test that a task may change.
        globs = (*self.options.control_files, *_SETTINGS, f"{self.hooks.place}/**", *named)
        return Classifier(named, globs, self.modules)

    def _lead(self, link: Path) -> str:
        """Return the file of the work tree that a kept hook is a link to."""
        inside = link.relative_to(self.hooks.kept or "")
        return os.path.normpath(Path(self.hooks.place, inside).parent / link.readlink())

    def _kept_files(self) -> list[Path]:
        kept = self.hooks.kept
        return [] if kept is None else [path for path in Path(kept).rglob("*") if not path.is_dir()]

    async def _try(
        self, place: Sandbox, commit: Commit, composed: Composed, head: Mapping[str, TreeEntry]
    ) -> _Seen:
        before: dict[str, object] = {}
        own = {path for path, entry in composed.entries.items() if head.get(path) == entry}
        own -= set(composed.texts)

        def prepare(work: Path) -> Prepared:
            prepared = self._prepare(work, commit)
            before.update((path, _facts(work / "tree" / path)) for path in own)
            return prepared

        async with place.run_prepared(composed, prepare) as (work, ended):
            seen = _read_reports(work / "reports", ended.exit_code, f"{ended.out}\n{ended.err}")
            return seen if seen.code is None else replace(seen, files=_changed(work, before, set(head)))

    def _prepare(self, work: Path, commit: Commit) -> Prepared:
        """Give a tree a git folder of its own, with the hooks in it."""
        git = work / "tree" / ".git"
        make_git(git, GitSource(self.git_dir, self.objects))
        (git / "index").unlink(missing_ok=True)
        (git / "objects/info/alternates").write_text(f"../{SHARED_OBJECTS.rpartition('/')[2]}\n")
        _set_head(git, commit.base)
        name, email = commit.author
        with (git / "config").open("a") as config:
            config.write(f"[user]\n\tname = {_quote(name)}\n\temail = {_quote(email)}\n" if name else "")
        for number, text in enumerate(commit.messages):
            (git / f"segue-message-{number}").write_text(text)
        if self.hooks.kept is not None:
            shutil.copytree(self.hooks.kept, git / "hooks", symlinks=True)
        script = work / "hooks" / "run-hooks"
        script.write_text(_RUN)
        words = (str(work / "reports"), commit.tree, self.hooks.place, str(len(commit.messages)))
        return Prepared(("sh", str(script), *words), self._readable(), self.objects.common_dir / "objects")

    def _readable(self) -> list[Path]:
        """Return what hooks need of places that are hidden: their own folder, tools, and what these keep."""
        home, found = Path.home(), [Path(self.hooks.source)] if self.hooks.source is not None else []
        env = environment({}, network=True)
        for file in (file for file in self._kept_files() if not file.is_symlink()):
            for word in _PROGRAM.findall(read_start(file).decode("utf-8", "replace")):
                if os.access(word, os.X_OK) and Path(word).is_file():
                    found += program_places((word,), env)
        return [*found, *(home / name for name in _STORES if (home / name).is_dir())]

    async def _explain(
        self, place: Sandbox, commit: Commit, seen: _Seen, base: Mapping[str, TreeEntry]
    ) -> tuple[CheckState, str]:
        """Say whether it is the work that a hook complains about, and why it does."""
        said = last_line(seen.output) or f"exit code {seen.code}"
        obstacle = self._obstacle(seen)
        if not obstacle and seen.name != COMMIT_HOOKS[0]:
            shown = "\n".join(last_lines(seen.output)) or said
            return CheckState.BROKEN, f"the {seen.name} hook refuses the message of the commit: {shown}"
        if not obstacle and commit.base:
            alone = Commit(commit.base, commit.base, (), commit.author)
            before = await self._try(place, alone, Composed(base), base)
            obstacle = self._obstacle(before)
            if before.code and not obstacle:
                lacks = find_obstacle((seen.name, seen.name), Observed(before.code, None, before.output))
                if lacks is None:
                    return CheckState.NOTHING, f"it failed before the task as well: {said}"
                obstacle = lacks.reason
        if obstacle:
            return CheckState.BROKEN, f"the {seen.name} hook cannot run in the sandbox: {obstacle}"
        return CheckState.FAILED, f"the {seen.name} hook failed: {said}"

    def _obstacle(self, seen: _Seen) -> str:
        if seen.code is None:
            return f"it took longer than check_timeout = {self.options.timeout:g} s"
        if seen.code != 0 and not seen.began:
            return last_line(seen.output)
        closed = find_network(seen.output.splitlines()) if seen.code and not self.options.network else ""
        return f"it needs the network: {closed[:300]}" if closed else ""


def _started(text: str, base: Mapping[str, TreeEntry]) -> list[str]:
    """Return the files that a script starts; other files that it names are more likely the product."""
    words = (word.removeprefix("./") for word in _WORD.findall(text))
    runs = [word for word in words if word in base and base[word].mode == "100755"]
    return [*runs, *_INTERPRETED.findall(text)]


def _quote(value: str) -> str:
    return '"' + re.sub(r'[\\"]', r"\\\g<0>", value.replace("\n", " ")) + '"'


def _set_head(git: Path, base: str) -> None:
    """Let HEAD be the commit that the task began with, on the branch that is checked out."""
    text = (git / "HEAD").read_text().strip()
    name = text.removeprefix("ref: ") if text.startswith("ref: ") else ""
    if name and base:
        (git / name).parent.mkdir(parents=True, exist_ok=True)
        (git / name).write_text(f"{base}\n")
    elif base:
        (git / "HEAD").write_text(f"{base}\n")


def _read_reports(reports: Path, code: int | None, rest: str) -> _Seen:
    ran = [
        one for one in read_start(reports / "ran").decode("utf-8", "replace").split() if one in COMMIT_HOOKS
    ]
    if not ran:  # there is none, or git itself failed
        return _Seen(
            code, COMMIT_HOOKS[0] if code != 0 else "", cut_tail(rest.strip(), _KEPT_OUTPUT), began=False
        )
    shown = [ran[-1]] if code != 0 else [one for one in COMMIT_HOOKS if one in ran]
    parts = [read_start(reports / one, _KEPT_OUTPUT).decode("utf-8", "replace").strip() for one in shown]
    message = read_start(reports / "message", _KEPT_OUTPUT).decode("utf-8", "replace")
    return _Seen(code, shown[0], "\n".join(part for part in parts if part), message)


def _changed(work: Path, before: Mapping[str, object], known: set[str]) -> dict[str, HookedFile | None]:
    """Return the files that hooks have changed, those that they have added to git's index, and removed."""
    tree = work / "tree"
    index = read_start(work / "reports" / "index", _LARGEST).decode("utf-8", "surrogateescape").split("\0")
    staged = {
        path for path in index if path and ".." not in path.split("/") and ".git" not in path.split("/")
    }
    found: dict[str, HookedFile | None] = {}
    with Beneath(tree) as below:
        for path, old in before.items():
            if _facts(tree / path) != old:
                is_gone = path not in staged and below.status(path) is None
                found |= {path: None} if is_gone else _read(below, path)
        for path in sorted(staged - known)[:_MOST_FILES]:
            found |= _read(below, path)
    return found


def _facts(path: Path) -> tuple[int, ...]:
    try:
        found = path.lstat()
    except OSError:
        return ()
    return found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _read(tree: Beneath, path: str) -> dict[str, HookedFile | None]:
    """Read a regular file; nothing, if it is none or if a folder above it is a link."""
    facts = tree.status(path)
    try:
        if facts is None or not stat.S_ISREG(facts.st_mode):
            return {}
        return {path: HookedFile(tree.read(path, _LARGEST), 0o755 if facts.st_mode & 0o100 else 0o644)}
    except (OSError, UnsafeFile):
        return {}
