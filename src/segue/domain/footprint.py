"""Finds the paths that a task names: what it will probably change, and what it only refers to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from msgspec import Struct

from segue.domain.kind_words import FRAMEWORK, words
from segue.domain.task import Task, TaskKind

_LONGEST_TEXT, _LONGEST_PATH, _MOST_PATHS, _LOOK_BACK = 50_000, 200, 200, 80
_REMEMBERED_TEXT = 2000

_FENCED = re.compile(r"^[ \t]*(```|~~~).*?^[ \t]*\1", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\b[a-z][a-z0-9+.-]*://\S+|\bwww\.\S+|[\w.+-]+@[\w-]+\.\w+", re.IGNORECASE)
_EMPHASIS = re.compile(r"(?<![/\w*])\*{1,3}(?=\S)|(?<=[^\s/*])\*{1,3}(?![/\w*]|\.\w)")
_PART = r"[\w.@+~$*<>{},\[\]()-]"
_TOKEN = re.compile(rf"(`[^`\n]*`)|(?<![\w@.\\/:-])(/?{_PART}+(?:/{_PART}*)*)")
_SUFFIX = re.compile(r"(?::\d+(?:[-:]\d+)*|::[\w:.\[\]-]+|#L?\d[\w-]*)+$")
_PLAIN = re.compile(r"[\w.@+$()\[\]-]+")
_BRACES = re.compile(r"\{([^{}]*)\}")
_WILD = re.compile(r"[*?<>{}]|\.\.\.|…|^\$|^\[[A-Z_ ]+\]$")
_HOST = re.compile(r"[\w-]+\.(?:com|org|net|io|dev|ai|app|co|edu|gov)")
_MADE = re.compile(
    r"[\w@$()\[\]+-][\w.@$()\[\]+-]*\.(?:pyi?|ipynb|[cm]?[jt]sx?|go|rs|java|kts?|swift|mm|cs|fsx?|vb|cpp|cc|cxx|hpp|hh"
    r"|rb|erb|php|vue|svelte|astro|dart|scala|cljs?|exs?|heex|erl|hrl|hs|mli?|lua|sql|prisma|html?|s?css|sass"
    r"|less|sh|bash|zsh|fish|ps1|bat|zig|tf|tfvars|hcl|el|jl|proto|graphql|gql|jsonc?|json5|jsonl|ya?ml|toml"
    r"|ini|cfg|conf|mdx?|rst|adoc|txt|csv|tsv|xml|xsd|svg|png|jpe?g|gif|ico|pdf|lock|gradle|properties|plist"
    r"|sln|csproj|fsproj|cshtml|razor|xaml|resx|hbs|ejs|pug|jinja2?|j2|tmpl|tpl|twig|liquid|feature|snap|nix"
    r"|cmake|mk|bzl|bazel|sol|glsl|wgsl|gd|tscn|storyboard|xib|strings|po|nim|groovy|example|sample)"
)
_SHORT = re.compile(r"[\w-]+\.(?:[chdmrstv]|el|mm|pl|pm)")
"""Too short to tell it from an abbreviation, unless a folder is named or it is marked as code."""
_DOCUMENTS = frozenset(("README", "CHANGELOG", "CONTRIBUTING"))
"""Documents that are called so without their suffix."""
_WITHOUT_DOT = _DOCUMENTS | {
    *("LICENSE", "CODEOWNERS", "Dockerfile", "Makefile", "Justfile", "Gemfile", "Procfile", "Rakefile"),
    "Jenkinsfile",
}
_DESIGN = frozenset(("spec.md", "plan.md", "research.md", "data-model.md", "tasks.md", "constitution.md"))
"""Documents of Spec Kit that tasks are made from, not work on."""
_MAY_BE_PATH = re.compile(r"/|\.\w|" + "|".join(sorted(_WITHOUT_DOT)))
_WELL_KNOWN = re.compile(
    r"(?:[\w-]+\.)?Dockerfile(?:\.\w+)?|go\.(?:mod|sum)"
    r"|\.(?:env|git|docker|editor|prettier|eslint|npm|nvm|node|python|pre-commit|stylelint|markdownlint|ruff"
    r"|flake8|pylint|babel|browserslist|husky|vscode|devcontainer|tool-versions)[\w.-]*"
)
_FOLDER = words(
    "src | libs? | apps? | api | pkg | packages | internal | cmd | server | client | backend | frontend"
    " | web | mobile | ios | android | core | tests? | __tests__ | e2e | specs? | docs? | scripts | configs?"
    " | public"
    " | static | assets | components | pages | modules | services | models | migrations | infra(?:structure)?"
    " | deploy | tools | bin | contracts | examples | db | database | resources | include | crates | prisma"
    " | schemas | supabase | functions | terraform | charts | k8s | helm | shared | cli"
)
"""How folders are called that a path begins with."""
_NO_FOLDERS = words(
    r"client/server | server/client | test/debug | frontend/backend | backend/frontend | web/mobile"
    r" | ios/android | android/ios | docs/tests | tests/docs | api/cli | cli/api | api/web | web/api"
)
_AT_A_PLACE = re.compile(
    r"(?:\b(?:in|into|to|at|under|inside|within|from|of|folder|directory|create|update|edit|modify|delete"
    r"|remove|move|rename|implement|add|write|build)|[:,(]|^)\s*$",
    re.IGNORECASE,
)
_REFERS = words(
    "described | defined | specified | documented | listed | outlined | shown | stated | given | found | per"
    " | see | following | follows? | matching | match(?:es)? | based on | according to | using | uses?"
    " | against | by | depends on | requires | needs | via | like | similar to | mirrors? | imports? | reads?"
    " | reading | consult | references? | refer to | compare | calls? | runs? | running | execute | validate"
    " | verify | check | loads? | parses? | specification | spec | source | as in | with | from",
    after=r"[\s:]+(?:(?:in|the|to|on|file|files|section|of|from|with|all|all of)\s+)*\W{0,3}$",
)
"""What comes before a path that a task looks at; it need not change it."""
_TAKES_FROM = words("remove | delete | drop | extract | move | strip | split | migrate | rename | replace")
_FROM = re.compile(r"\bfrom\s+(?:the\s+)?\W{0,3}$", re.IGNORECASE)
_AND = re.compile(r"[\s`*_]*(?:,|and|or|&|\+|/|;)?[\s`*_]*(?:and\s+)?[`*_]*")


class Footprint(Struct, frozen=True):
    """The paths of one task, relative to the repository, in the order in which it names them."""

    names: tuple[str, ...] = ()
    """What it names as its place of work; a folder ends with a slash."""
    refers: tuple[str, ...] = ()
    """What it only refers to: "per docs/api.md"."""
    touched: tuple[str, ...] = ()
    """What it has changed before, in an earlier attempt or run."""

    @property
    def changes(self) -> tuple[str, ...]:
        """What it will probably change."""
        return tuple(dict.fromkeys((*self.names, *self.touched)))


def find_footprint(task: Task, touched: Sequence[str] = ()) -> Footprint:
    """Return the paths of a task; one that only verifies changes nothing, so it only refers to them."""
    named: dict[str, bool] = {}
    more = (task.title, *(criterion.text for criterion in task.criteria))
    for text in (task.text, *(one for one in more if one not in task.text)):
        for path, refers in _remember(text) if len(text) < _REMEMBERED_TEXT else find_paths(text):
            named[path] = named.get(path, True) and refers
    looks = task.kind is TaskKind.VERIFY_ONLY
    return Footprint(
        tuple(path for path, refers in named.items() if not (refers or looks))[:_MOST_PATHS],
        tuple(path for path, refers in named.items() if refers or looks)[:_MOST_PATHS],
        tuple(dict.fromkeys(touched)),
    )


@lru_cache(maxsize=16_384)
def _remember(text: str) -> tuple[tuple[str, bool], ...]:
    """Return the paths in a text; the tasks of a run are looked at again whenever its source has changed."""
    return tuple(find_paths(text))


def find_paths(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the paths in a text, and whether it only refers to them; code blocks and links are left out."""
    text = text[:_LONGEST_TEXT]
    if _MAY_BE_PATH.search(text) is None:
        return
    for line in _LINK.sub(" ", _FENCED.sub(" ", text)).split("\n"):
        if _MAY_BE_PATH.search(line):
            yield from _in_line(_EMPHASIS.sub("", line))


def _in_line(line: str) -> Iterator[tuple[str, bool]]:
    end, refers = -1, False
    for found in _TOKEN.finditer(line):
        word, quoted = found[0].strip("`*_(),;: "), found[1] is not None
        if "/" not in word and "." not in word and word not in _WITHOUT_DOT:
            continue
        before = line[max(0, found.start() - _LOOK_BACK) : found.start()]
        paths = list(_read(found[0].strip("` "), quoted, before))
        if not paths:
            continue
        if end < 0 or not _AND.fullmatch(line, end, found.start()):
            refers = _only_refers(before)
        end = found.end()
        yield from ((path, refers or path in _DESIGN) for path in paths)


def _only_refers(before: str) -> bool:
    if _REFERS.search(before) is None:
        return False
    return _FROM.search(before) is None or _TAKES_FROM.search(before) is None


def _read(token: str, quoted: bool, before: str) -> Iterator[str]:
    """Yield the paths that a word means: none if it is no path, several if it has braces."""
    token = _SUFFIX.sub("", token.rstrip(".,;:!?")).rstrip(".,;:")
    if not quoted:
        token = _unwrap(token)
    if (
        len(token) > _LONGEST_PATH
        or token.startswith(("~", "@", "//", "-"))
        or token.endswith("()")
        or " " in token
    ):
        return
    for path in _expand(token):
        rooted = path.startswith("/")
        parts = [part for part in path.split("/") if part not in ("", ".")]
        fixed = next((n for n, part in enumerate(parts) if _WILD.search(part)), len(parts))
        if not all(map(_PLAIN.fullmatch, parts[:fixed])) or ".." in parts:
            continue
        folder = path.endswith("/") or fixed < len(parts)
        if _is_path(parts[:fixed], folder, rooted, quoted, before):
            yield _normal(parts[:fixed]) + ("/" if folder else "")


def _unwrap(token: str) -> str:
    """Remove brackets around a word, not those that belong to it as in `app/[id]/page.tsx`."""
    for opening, closing in ("()", "[]", "{}", "<>"):
        if token.startswith(opening) and token.endswith(closing):
            token = token[1:-1]
        if token.count(opening) > token.count(closing):
            token = token.lstrip(opening) if token.startswith(opening) else token.rpartition(opening)[0]
        if token.count(closing) > token.count(opening):
            token = token.rstrip(closing)
    return token.rstrip(",.")


def _expand(token: str) -> list[str]:
    """Return the paths that braces stand for, as in `src/{a,b}.py`."""
    found = _BRACES.search(token)
    if found is None or "," not in found[1] or found[1].count(",") > 9:
        return [token]
    start, end = token[: found.start()], token[found.end() :]
    return [one for part in found[1].split(",") for one in _expand(f"{start}{part.strip()}{end}")][:20]


def _is_path(parts: Sequence[str], folder: bool, rooted: bool, quoted: bool, before: str) -> bool:
    if not parts or any(map(FRAMEWORK.fullmatch, parts)) or _HOST.fullmatch(parts[0]):
        return False
    is_file = not folder and _is_file(parts[-1])
    if len(parts) == 1:
        if folder:
            return not rooted and (
                _FOLDER.fullmatch(parts[0]) is not None or (quoted and not parts[0].isupper())
            )
        return not rooted and (is_file or (quoted and _SHORT.fullmatch(parts[0]) is not None))
    if is_file or (not folder and _SHORT.fullmatch(parts[-1]) is not None):
        return True
    if rooted or (not folder and "." in parts[-1].lstrip(".")):
        return False
    known = _is_folder(parts[0]) or parts[0].startswith(".")
    if folder:
        return known or quoted or len(parts) > 2
    if not known or _NO_FOLDERS.fullmatch("/".join(parts)):
        return False
    return quoted or len(parts) > 2 or _AT_A_PLACE.search(before) is not None


def _is_folder(name: str) -> bool:
    return name.islower() and _FOLDER.fullmatch(name) is not None


def _is_file(name: str) -> bool:
    return name in _WITHOUT_DOT or (_MADE.fullmatch(name) or _WELL_KNOWN.fullmatch(name)) is not None


def _normal(parts: Sequence[str]) -> str:
    path = "/".join(parts)
    return f"{path}.md" if path in _DOCUMENTS else path
