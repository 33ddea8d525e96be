"""What every task waits for when several are worked on at once: what is stated, and the paths it names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from segue.domain.amounts import list_all
from segue.domain.graph import Dependency, WaitKind, Waits, sort_tasks
from segue.domain.task import Task, TaskKind, TaskStatus

_LONGEST_TEXT, _MOST_PATHS, _MOST_NAMED = 50_000, 200, 3

_LEFT_OUT = re.compile(
    r"^[ \t]*(```|~~~).*?^[ \t]*\1|\b[a-z][a-z0-9+.-]*://\S+|\bwww\.\S+|[\w.+-]+@[\w-]+\.\w+"
    r"|\b(?:node|next|nuxt|vue|react|express|three|chart|d3|nest|socket)\.(?:js|io)\b",
    re.MULTILINE | re.DOTALL | re.IGNORECASE,
)
"""Code blocks, addresses, and names of frameworks that look like files."""
_PART = r"(?:[\w@.+$-]|\[[\w.-]+\]|\([\w-]+\))+"
_TOKEN = re.compile(rf"(?<![\w~@.:/\\}}*>-])(\.?/)?({_PART}(?:/{_PART})*)(/(?![\w<]))?(/?[*{{<])?")
_FILE = re.compile(
    r".*\.(?:[cm]?[jt]sx?|pyi?|ipynb|go|rs|java|kts?|swift|mm?|cs|[ch](?:pp|h|xx|c)?|rb|erb|php|vue|svelte"
    r"|astro|dart|scala|cljs?|exs?|heex|hs|mli?|lua|r|jl|sql|prisma|html?|s?css|less|sh|bash|ps1|zig|tf|hcl"
    r"|proto|graphql|jsonc?|jsonl|ya?ml|toml|ini|cfg|conf|mdx?|rst|adoc|txt|csv|xml|svg|png|lock|gradle|plist"
    r"|csproj|razor|j2|tmpl|feature|mk|nix|env)"
    r"|(?:.*/)?(?:README|CHANGELOG|LICENSE|Dockerfile|Makefile|Justfile|Gemfile|Procfile|CODEOWNERS)"
    r"|(?:.*/)?\.(?:env|git|docker|editor|eslint|prettier|npm|nvm)[\w.-]+"
)
_FOLDER = re.compile(
    r"(?:src|lib|libs|app|apps|pkg|packages|internal|cmd|server|client|backend|frontend|tests?|docs"
    r"|scripts|migrations|contracts|components|services|models|\.github)/.+"
)
_DESIGN = re.compile(r"(?:.*/)?(?:spec|plan|research|data-model|tasks|constitution|quickstart)\.md")
"""Documents of Spec Kit that tasks are made from, not work on."""


def find_paths(text: str) -> tuple[str, ...]:
    """Return the paths that a text names; a folder ends with a slash, and a pattern counts as its folder."""
    return tuple(dict.fromkeys(_read_paths(text[:_LONGEST_TEXT])))[:_MOST_PATHS]


def _read_paths(text: str) -> Iterator[str]:
    for match in _TOKEN.finditer(_LEFT_OUT.sub("X", text)):
        root, token, slash, pattern = match.groups()
        path = token.rstrip(".")
        if pattern:
            path = path if slash or pattern.startswith("/") else path.rpartition("/")[0]
        if not path or ".." in path.split("/") or path.startswith(("-", "@")) or _DESIGN.fullmatch(path):
            continue
        if _FILE.fullmatch(path) and not slash:
            yield path
        elif root != "/" and (slash or pattern or _FOLDER.fullmatch(path)):
            yield f"{path}/"


def paths_of(task: Task, touched: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the paths that a task will probably change: it names them, or has `touched` them before."""
    named: tuple[str, ...] = ()
    if task.kind is not TaskKind.VERIFY_ONLY:
        named = find_paths("\n".join((task.title, task.text, *(one.text for one in task.criteria))))
    return tuple(dict.fromkeys((*named, *touched)))


class Claims:
    """The paths that tasks would change; each path remembers the last task that claimed it."""

    def __init__(self) -> None:
        self._tasks: dict[str, str] = {}

    def collide(self, paths: Iterable[str]) -> dict[str, list[str]]:
        """Return the tasks that claimed these paths, folders around them or files in them, with the paths."""
        found: dict[str, list[str]] = {}
        for path in paths:
            parts = path.strip("/").split("/")
            claims = ["/".join(parts[:size]) for size in range(1, len(parts) + 1)]
            if path.endswith("/"):
                claims += [claim for claim in self._tasks if claim.startswith(path)]
            for claim in claims:
                if claim in self._tasks:
                    found.setdefault(self._tasks[claim], []).append(path if len(claim) < len(path) else claim)
        return found

    def claim(self, task: str, paths: Iterable[str]) -> None:
        """Remember that a task changes these paths."""
        self._tasks |= {path.strip("/"): task for path in paths}


_NOTHING: Mapping[str, Sequence[str]] = {}


def plan_waits(tasks: Sequence[Task], *, touched: Mapping[str, Sequence[str]] = _NOTHING) -> Waits:
    """Return what each task waits for and why, in the order of the tasks, which must have their kinds."""
    by_key = {task.key: task for task in tasks}
    sequence = [by_key[key] for key in sort_tasks({task.key: task.depends_on for task in tasks})]
    claims, earlier, waits = Claims(), dict[str, Task](), dict[str, tuple[Dependency, ...]]()
    last = {story: task.key for task in sequence if _is_open(task) for story in _stories(task)}
    for task in sequence:
        ways = [*_stated(task, earlier)]
        if _is_open(task):
            ways += _look_back(task, earlier.values(), last)
            known = {key for way in ways for key in way.keys}
            paths = paths_of(task, touched.get(task.key, ()))
            for other, shared in claims.collide(paths).items():
                if other not in known:
                    why = _explain(shared, task, by_key[other])
                    ways.append(Dependency((other,), WaitKind.PATHS, why))
            claims.claim(task.key, paths)
        waits[task.key] = tuple(ways)
        earlier[task.key] = task
    return {task.key: waits[task.key] for task in tasks}


def _stated(task: Task, earlier: Mapping[str, Task]) -> Iterator[Dependency]:
    """Yield what the source says; a mere order gives way where the other task needs this one."""
    for one in task.depends_on:
        if one.kind.blocks:
            yield one
        elif keys := tuple(key for key in one.keys if key in earlier):
            yield Dependency(keys, one.kind, one.why)


def _look_back(task: Task, earlier: Collection[Task], last: Mapping[str, str]) -> Iterator[Dependency]:
    """Yield what a task waits for that looks at the work of others: a result, a whole story, a checkpoint."""
    stories = _stories(task)
    scopes: list[tuple[WaitKind, str, str]] = []
    if task.kind is TaskKind.VERIFY_ONLY:
        for scope in stories or [task.phase]:
            work = f"what comes before it in {scope}" if scope else "everything before it"
            scopes.append((WaitKind.PHASE, scope, f"it looks at {work}"))
    else:
        ending = [story for story in stories if last[story] == task.key]
        scopes += [(WaitKind.ORDER, story, f"it is the last task of {story}") for story in ending]
    if task.checkpoint:
        scopes.append((WaitKind.ORDER, task.phase, "a checkpoint follows it"))
    for kind, scope, why in scopes:
        before = [one for one in earlier if not scope or scope in (one.phase, *_stories(one))]
        if keys := tuple(one.key for one in before if _is_open(one)):
            yield Dependency(keys, kind, why)


def _is_open(task: Task) -> bool:
    """Return whether an agent will work on it; what a person does delays only tasks that say so."""
    return task.status is TaskStatus.PENDING and task.kind is not TaskKind.HUMAN


def _stories(task: Task) -> list[str]:
    return task.story.split("+") if task.story else []


def _explain(shared: Iterable[str], task: Task, other: Task) -> str:
    marked = ", although both are marked [P]" if task.parallel and other.parallel else ""
    return f"both change {list_all(dict.fromkeys(shared), _MOST_NAMED)}{marked}"
