"""Rules of the house that a linter cannot state: who builds prompts, who starts programs, who prints."""

from __future__ import annotations

import ast
import graphlib
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

import segue

ROOT = Path(segue.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))
BY_NAME = ("Popen", "run", "check_call", "check_output", "create_subprocess_exec", "execvp", "execvpe")
"""What starts a program that may be given by its name. `capture` and `probe` find it in `programs`."""
STARTERS = {"system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp"}


Nodes = Sequence[ast.AST]


@cache
def _nodes(path: Path) -> Nodes:
    """Everything in a module, read once for all rules."""
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def prompts_built(nodes: Nodes) -> Iterator[int]:
    """Lines that construct a Prompt, or rename it so that this test would not see it."""
    for node in nodes:
        if isinstance(node, ast.Call) and _name(node.func) == "Prompt":
            yield node.lineno
        if isinstance(node, ast.alias) and node.name == "Prompt" and node.asname:
            yield node.lineno


def nested_conditions(nodes: Nodes) -> Iterator[int]:
    """Lines with a conditional expression inside another one."""
    for node in nodes:
        if isinstance(node, ast.IfExp):
            parts = (node.test, node.body, node.orelse)
            yield from (node.lineno for part in parts if isinstance(part, ast.IfExp))


def unpacked_literals(nodes: Nodes) -> Iterator[int]:
    """Lines that unpack a tuple or list into a call where plain arguments would do."""
    for node in nodes:
        if isinstance(node, ast.Call):
            stars = [one.value for one in node.args if isinstance(one, ast.Starred)]
            yield from (star.lineno for star in stars if isinstance(star, ast.Tuple | ast.List) and star.elts)


def programs_started(nodes: Nodes) -> Iterator[int]:
    """Lines that start a program by themselves, or ask for a shell."""
    for node in nodes:
        match node:
            case ast.Import(names=names) if any(alias.name == "subprocess" for alias in names):
                yield node.lineno
            case ast.ImportFrom(module="subprocess"):
                yield node.lineno
            case ast.Call() if _starts_program(node):
                yield node.lineno


def programs_looked_up(nodes: Nodes) -> Iterator[int]:
    """Lines that look a program up, or start one by its bare name, which the system would look up."""
    for node in nodes:
        match node:
            case ast.Attribute(attr="which", value=ast.Name(id="shutil")):
                yield node.lineno
            case ast.ImportFrom(module="shutil", names=names) if any(one.name == "which" for one in names):
                yield node.lineno
            case ast.Call(
                func=ast.Attribute(ast.Name("subprocess" | "asyncio" | "os"), name), args=[first, *_]
            ) if name in BY_NAME:
                words = first.elts[:1] if isinstance(first, ast.List | ast.Tuple) else [first]
                if any(isinstance(word, ast.Constant) and "/" not in str(word.value) for word in words):
                    yield node.lineno


def printed(nodes: Nodes) -> Iterator[int]:
    """Lines that print."""
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            yield node.lineno


def _starts_program(call: ast.Call) -> bool:
    if any(
        k.arg == "shell" and not (isinstance(k.value, ast.Constant) and k.value.value is False)
        for k in call.keywords
    ):
        return True
    if not isinstance(call.func, ast.Attribute):
        return False
    owner, name = _name(call.func.value), call.func.attr
    if owner == "os":
        return name in STARTERS or name.startswith(("exec", "spawn"))
    return name.startswith("create_subprocess") or name in ("subprocess_exec", "subprocess_shell")


def _name(node: ast.AST) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else None


def _relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _room(path: Path) -> str:
    """Return the path within the core or within its part: both have simulators in `sim`."""
    return re.sub(r"^parts/\w+/", "", _relative(path))


@pytest.mark.thorough
def test_the_rules_of_the_house() -> None:
    broken: list[str] = []
    for path in MODULES:
        place, nodes = _room(path), _nodes(path)
        if not place.startswith(("prompts/", "prompts.py")):  # those of a part are in one file
            broken += [
                f"{place}:{line}: a Prompt is built under segue/prompts alone"
                for line in prompts_built(nodes)
            ]
        # A stand-in for a vendor's tool is a program of its own and starts git as that tool does.
        if (
            not place.startswith("system/")
            and not place.endswith(("/child.py", "_child.py"))
            and place != "sim/call.py"
            and not place.startswith("proof/runners/hooks/")  # they run in the project's own Python
        ):
            started = programs_started(nodes)
            broken += [f"{place}:{line}: programs are started by segue/system alone" for line in started]
        if place != "system/programs.py" and not place.startswith("sim/"):
            looked_up = programs_looked_up(nodes)
            broken += [
                f"{place}:{line}: programs are looked up by segue/system/programs alone" for line in looked_up
            ]
        if not place.startswith("cli/"):
            broken += [f"{place}:{line}: only segue/cli prints" for line in printed(nodes)]
    assert broken == [], "\n".join(broken)


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ("Prompt('x')", prompts_built),
        ("prompt.Prompt(text)", prompts_built),
        ("from segue.domain.job import Prompt as P", prompts_built),
        ("import subprocess", programs_started),
        ("from subprocess import run", programs_started),
        ("os.system('x')", programs_started),
        ("os.execvp('x', [])", programs_started),
        ("await_(asyncio.create_subprocess_exec('x'))", programs_started),
        ("run('x', shell=True)", programs_started),
        ("shutil.which('git')", programs_looked_up),
        ("from shutil import which", programs_looked_up),
        ("subprocess.Popen(['git', 'status'])", programs_looked_up),
        ("os.execvp('git', argv)", programs_looked_up),
        ("print('x')", printed),
        ("x = a if b else c if d else e", nested_conditions),
        ("f(*(a, b), c=d)", unpacked_literals),
    ],
)
def test_the_rules_see_what_they_forbid(code: str, rule: object) -> None:
    assert callable(rule)
    assert list(rule(list(ast.walk(ast.parse(code)))))


def _classes() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in MODULES:
        for node in _nodes(path):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(_relative(path))
    return found


def test_a_class_name_is_used_once() -> None:
    twice = {name: places for name, places in _classes().items() if len(places) > 1}
    assert not twice, "a class name is used once in the project"


def _questions(tree: ast.AST) -> Iterator[str]:
    """Functions whose docstring begins like a question; a property may be described by what it is."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            is_property = any("property" in ast.unparse(one) for one in node.decorator_list)
            words = (ast.get_docstring(node) or "").split()
            if words and not is_property and words[0] in ("What", "Whether", "Who", "Where", "Why", "Which"):
                yield node.name


def test_docstrings_say_what_a_function_does() -> None:
    assert list(_questions(ast.parse('def is_done():\n    """Whether it is done."""'))) == ["is_done"]
    for path in MODULES:
        found = list(_questions(_nodes(path)[0]))
        assert not found, f"{_relative(path)}: begin with a verb, such as Return: {found}"


LISTS = ("flow/phase.py", "flow/phases/")
"""The presets, and the phases with what each of them comes after."""
OTHER_WORDS = {
    "agents/acp/tools.py": "kinds of tools in the Agent Client Protocol",
    "config/needed.py": "names of settings",
    "agents/scripted/answers.py": "the stand-in for an agent knows what it is asked for, as a script does",
}
"""Files in which words that name phases mean something else."""


def _phases_listed(nodes: Nodes) -> Iterator[int]:
    """Lines with a list of phase names: only the registry and the presets may have one."""
    from segue.flow.phase import PHASES

    names = set(PHASES)
    for node in nodes:
        if isinstance(node, ast.List | ast.Tuple | ast.Set | ast.Dict):
            items = node.keys if isinstance(node, ast.Dict) else node.elts
            words = {item.value for item in items if isinstance(item, ast.Constant)}
            if len(words & names) > 1:
                yield node.lineno


def test_nobody_but_the_registry_lists_phases() -> None:
    listed = [
        f"{_relative(path)}:{line}"
        for path in MODULES
        if not _relative(path).startswith(LISTS) and _relative(path) not in OTHER_WORDS
        for line in _phases_listed(_nodes(path))
    ]
    assert not listed, f"phase names are listed in {' and '.join(LISTS)} alone"


def test_queries_name_phases_that_exist() -> None:
    from segue.flow.phase import PHASES

    journal = {"base", "commit", "end", "hooks", "tests"}  # steps that are no phases
    named = r"phase (?:=|<>|IN|NOT IN) \(?((?:'[a-z]+'(?:, )?)+)"
    for path in sorted(ROOT.rglob("*.sql")):
        found = {
            word for words in re.findall(named, path.read_text()) for word in re.findall("[a-z]+", words)
        }
        assert found <= set(PHASES) | journal, path


def test_code_names_phases_that_exist() -> None:
    from segue.flow.phase import PHASES

    known = {*PHASES, "base", "commit", "end", "sleep"}
    for path in MODULES:
        for node in _nodes(path) if "bridge" not in _relative(path) else ():  # its turns are no phases
            about: list[ast.expr] = []
            if isinstance(node, ast.Compare) and _name(node.left) == "phase":
                about = node.comparators
            elif isinstance(node, ast.Subscript) and _name(node.value) == "PHASES":
                about = [node.slice]
            elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("flow.has"):
                about = node.args
            named = {one.value for one in about if isinstance(one, ast.Constant) and one.value}
            assert named <= known, _relative(path)


CALLED = {
    "sources": {"kind", "source_kind"},
    "judges": {"name", "names", "judges", "judge", "judged_by"},
    "deliveries": {"delivery"},
    "reviewers": {"reviewer"},
    "searchers": {"searcher", "service"},
}
"""What variants are called where somebody might compare them."""


def test_nobody_tells_variants_apart_by_name() -> None:
    """What a plug-in adds is treated like what comes with Segue."""
    from segue.runtime.registry import BUILT_IN

    for path in MODULES:
        for node in _nodes(path):
            if not isinstance(node, ast.Compare) or _relative(path).startswith("sources/"):
                continue
            words = {one.value for one in ast.walk(node) if isinstance(one, ast.Constant)}
            names = {_name(one) for one in ast.walk(node)}
            for socket, called in CALLED.items():
                told_apart = words & set(BUILT_IN[socket]) and names & called
                assert not told_apart, (
                    f"{_relative(path)}:{node.lineno}: {socket} say what they are themselves"
                )


READERS = ("domain/", "store/", "sim/", "agents/", "judges/", "sources/", "deliveries/", "reviewers/")
"""Where JSON is read: events and results, and what others answer."""


def _payloads_read(nodes: Nodes) -> Iterator[int]:
    """Lines that read a part of an event or of a step's result by its name."""
    for node in nodes:
        match node:
            case ast.Subscript(value=ast.Attribute(attr=attr), slice=ast.Constant(value=str())):
                pass
            case ast.Call(
                func=ast.Attribute(value=ast.Attribute(attr=attr), attr="get"),
                args=[ast.Constant(value=str()), *_],
            ):
                pass
            case _:
                continue
        if attr in ("data", "input", "output"):
            yield node.lineno


def test_events_and_results_are_read_as_types() -> None:
    wrong = list(ast.walk(ast.parse("step.output['verdict']; step.input.get('prompt', '')")))
    assert list(_payloads_read(wrong)) == [1, 1]
    for path in MODULES:
        if not _room(path).startswith(READERS):
            read = list(_payloads_read(_nodes(path)))
            assert not read, f"{_relative(path)}:{read}: see segue/domain/results.py"


def _imports(path: Path, known: set[str]) -> Iterator[str]:
    """Names of modules that one imports anywhere: at the top, in functions, and for types alone."""
    for node in _nodes(path):
        match node:
            case ast.Import(names=names):
                yield from (one.name for one in names)
            case ast.ImportFrom(module=str(module), names=names):
                for one in names:
                    inner = f"{module}.{one.name}"
                    yield inner if inner in known else module


def test_flow_has_no_circle_of_imports() -> None:
    flow = {
        ".".join(("segue", *path.relative_to(ROOT).with_suffix("").parts)): path
        for path in (ROOT / "flow").rglob("*.py")
    }
    sorter = graphlib.TopologicalSorter(
        {name: set(_imports(path, set(flow))) & set(flow) for name, path in flow.items()}
    )
    sorter.prepare()  # raises CycleError, which names the circle


READING = re.compile(r"^\d+\. `(?P<path>[\w/.]+)` \((?P<lines>\d+)\)", re.M)
"""A file of the list in ARCHITECTURE.md that explains a task from settings to commit."""


def test_a_task_can_be_understood_from_the_files_that_are_listed() -> None:
    """At most 15 files with at most 4,000 lines; and each of them is there, as long as it says."""
    page = (ROOT.parents[1] / "ARCHITECTURE.md").read_text(encoding="utf-8")
    listed = {found["path"]: int(found["lines"]) for found in READING.finditer(page)}
    lines = {path: len((ROOT / path).read_text(encoding="utf-8").splitlines()) for path in listed}
    assert 10 <= len(listed) <= 15
    assert listed == {path: round(count, -1) for path, count in lines.items()}, "correct the lines"
    assert sum(lines.values()) <= 4000


def test_sockets_are_on_one_page() -> None:
    assert len((ROOT / "ports.py").read_text(encoding="utf-8").splitlines()) <= 450


@pytest.mark.parametrize("rule", [nested_conditions, unpacked_literals])
def test_expressions_are_plain(rule: Callable[[Nodes], Iterator[int]]) -> None:
    assert [f"{_relative(path)}:{line}" for path in MODULES for line in rule(_nodes(path))] == []
