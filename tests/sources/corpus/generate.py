"""Generates task files: every shape of a list, in every kind of file that people keep it in.

What the tasks are is known before the file is written, so that the expectation is not the reader's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle


@dataclass(frozen=True, slots=True)
class Item:
    """One task as it is meant."""

    number: int
    done: bool
    words: str

    @property
    def id(self) -> str:
        """Its id in the style of Spec Kit."""
        return f"T{self.number:03d}"


Shape = Callable[[list[Item]], list[str]]
Setting = Callable[[Shape], tuple[bytes, list[Item]]]

_WORDS = {
    "en": """Create the project in src/
Configure the linter
[P] Write the model in src/models/user.py
[P] [US1] Add the service (depends on T002, T003)
[US1] Show 100% of it
Document `run` in README.md""",
    "zh": "创建项目结构\n配置代码检查\n[P] 编写模型 src/user.py\n[US1] 添加服务\n编写测试\n更新文档",
    "es": "Crear el proyecto\nConfigurar\n[P] Añadir el modelo\n[US1] Añadir el servicio\nProbar\nDocumentar",
    "ru": "Создать проект\nНастроить\n[P] Добавить модель\n[US1] Добавить сервис\nТесты\nОписание",
    "de": "Projekt anlegen\nPrüfen\n[P] Modell schreiben\n[US1] Dienst ergänzen\nGröße prüfen\nHandbuch",
}


def items(language: str = "en", done: int = 2, first: int = 1) -> list[Item]:
    """Return six tasks, the first of which are done."""
    return [
        Item(first + place, place < done, words) for place, words in enumerate(_WORDS[language].split("\n"))
    ]


def _box(bullet: str) -> Shape:
    return lambda tasks: [f"{bullet} [{'x' if t.done else ' '}] {t.id} {t.words}" for t in tasks]


def _upper(tasks: list[Item]) -> list[str]:
    return [f"- [{'X' if t.done else ' '}] **{t.id}** {t.words}" for t in tasks]


def _numbers(tasks: list[Item]) -> list[str]:
    return [
        f"{place}. [{'x' if t.done else ' '}] {t.id}: {t.words}" for place, t in enumerate(tasks, start=1)
    ]


def _nested(tasks: list[Item]) -> list[str]:
    return ["- **Subtasks**:", *(f"  - [{'x' if t.done else ' '}] {t.id} {t.words}" for t in tasks)]


def _detailed(tasks: list[Item]) -> list[str]:
    rows = (
        [f"- [{'x' if t.done else ' '}] {t.id} {t.words}", "  - File: src/app.py", "  - [ ] has a test", ""]
        for t in tasks
    )
    return [line for row in rows for line in row]


def _headings(tasks: list[Item]) -> list[str]:
    rows = (
        [f"### {'[x] ' if t.done else ''}{t.id} {t.words}", "", "What to do.", "", "- [ ] it works", ""]
        for t in tasks
    )
    return [line for row in rows for line in row]


def _heading_boxes(tasks: list[Item]) -> list[str]:
    return [
        line for t in tasks for line in (f"### - [{'x' if t.done else ' '}] {t.id} {t.words}", "Text.", "")
    ]


def _heading_signs(tasks: list[Item]) -> list[str]:
    return [
        line for t in tasks for line in (f"#### {t.id}: {t.words}{' ✅' if t.done else ''}", "", "Text.", "")
    ]


def _heading_status(tasks: list[Item]) -> list[str]:
    return [
        line
        for t in tasks
        for line in (
            f"### {t.id} - {t.words}",
            f"**Status**: {'Done' if t.done else 'Not Started'}",
            "",
            "Text.",
            "",
        )
    ]


def _heading_own_box(tasks: list[Item]) -> list[str]:
    return [
        line
        for t in tasks
        for line in (
            f"### {t.id} {t.words}",
            "",
            f"- [{'x' if t.done else ' '}] {t.id} {t.words}",
            "- [ ] tested",
            "",
        )
    ]


def _table(tasks: list[Item]) -> list[str]:
    rows = [f"| {t.id} | {t.words} | 2h | {'✅ Done' if t.done else '⬜ Todo'} |" for t in tasks]
    return ["| ID | Task | Effort | Status |", "|----|------|--------|--------|", *rows, ""]


def _table_boxes(tasks: list[Item]) -> list[str]:
    rows = [f"|[{'x' if t.done else ' '}]|{t.id}|{t.words}|" for t in tasks]
    return ["|Done|ID|Description|", "|:-:|---|---|", *rows, ""]


def _items(tasks: list[Item]) -> list[str]:
    return [f"- {'[x] ' if t.done else ''}{t.id} {t.words}" for t in tasks]


def _lines(tasks: list[Item]) -> list[str]:
    return [line for t in tasks for line in (f"**{t.id}**: {t.words}{' ✅' if t.done else ''}", "")]


SHAPES: dict[str, Shape] = {
    "dash": _box("-"),
    "star": _box("*"),
    "plus": _box("+"),
    "upper": _upper,
    "numbered": _numbers,
    "nested": _nested,
    "detailed": _detailed,
    "headings": _headings,
    "heading-boxes": _heading_boxes,
    "heading-signs": _heading_signs,
    "heading-status": _heading_status,
    "heading-own-box": _heading_own_box,
    "table": _table,
    "table-boxes": _table_boxes,
    "items": _items,
    "lines": _lines,
}

_TITLE = [
    "---",
    'description: "Task list"',
    "---",
    "",
    "# Tasks: Shop",
    "",
    "**Input**: Documents in `/specs/001/`",
    "",
]
_AFTER = [
    "",
    "## Dependencies & Execution Order",
    "",
    "- T001 blocks T002",
    "- T003 → T004",
    "T002 must be done before T004.",
    "",
    "```text",
    "- [ ] T099 An example",
    "### T098 An example",
    "```",
    "",
    "## Notes",
    "",
    "- [P] tasks = different files",
    "<!-- - [ ] T097 hidden -->",
]


def _file(lines: list[str], end: str = "\n", bom: str = "") -> bytes:
    return (bom + end.join(lines) + end).encode()


def _template(shape: Shape) -> tuple[bytes, list[Item]]:
    tasks = items()
    lines = [*_TITLE, "## Phase 1: Setup", "", *shape(tasks[:2]), "", "**Checkpoint**: It starts", ""]
    lines += [
        "## Phase 2: User Story 1 - Buy (Priority: P1) 🎯 MVP",
        "",
        "**Goal**: Buy.",
        "",
        *shape(tasks[2:]),
    ]
    return _file([*lines, *_AFTER]), tasks


def _old_template(shape: Shape) -> tuple[bytes, list[Item]]:
    tasks = items(done=4)
    lines = ["# Tasks: Shop", "", "## Phase 3.1: Setup", *shape(tasks[:3]), "", "## Phase 3.2: Tests First ⚠️"]
    lines += [*shape(tasks[3:]), "", "## Dependencies", "- T001 blocks T002", "", "## Validation Checklist"]
    return _file([*lines, "- [ ] All contracts have tests", "- [ ] Each task names a file"]), tasks


def _language(language: str, phase: str) -> Setting:
    def make(shape: Shape) -> tuple[bytes, list[Item]]:
        tasks = items(language, done=1)
        return _file([f"# {phase}", "", f"## {phase} 1", "", *shape(tasks)]), tasks

    return make


def _ends(end: str, bom: str = "") -> Setting:
    def make(shape: Shape) -> tuple[bytes, list[Item]]:
        tasks = items(done=0)
        return _file(["# Tasks", "", *shape(tasks)], end, bom), tasks

    return make


def _finished(shape: Shape) -> tuple[bytes, list[Item]]:
    tasks = items(done=6, first=101)
    return _file(["# Tasks", "", *shape(tasks)]), tasks


SETTINGS: dict[str, Setting] = {
    "template": _template,
    "old": _old_template,
    "chinese": _language("zh", "阶段"),
    "spanish": _language("es", "Fase"),
    "russian": _language("ru", "Фаза"),
    "german": _language("de", "Phase"),
    "crlf": _ends("\r\n"),
    "cr": _ends("\r"),
    "bom": _ends("\n", "\ufeff"),
    "finished": _finished,
}


def generated() -> Iterator[tuple[str, bytes, str]]:
    """Yield name, content and expected line of every shape in every setting."""
    for (name, shape), where in zip(
        ((n, s) for n, s in SHAPES.items() for _ in SETTINGS), cycle(SETTINGS), strict=False
    ):
        data, tasks = SETTINGS[where](shape)
        yield f"{where}/{name}", data, " ".join(f"{task.id}{'*' if task.done else ''}" for task in tasks)
