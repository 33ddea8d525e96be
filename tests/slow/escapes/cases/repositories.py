"""Git: everything it reads may start a program, include a file or lead elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

from tests.slow.escapes.cases.shown import add_submodule, use_husky
from tests.slow.escapes.escape import Escape, Prepare
from tests.slow.escapes.scene import Scene

LOOK = (("status",), ("diff",), ("log", "-1"))
ALL_HOOKS = (
    *("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-checkout", "post-merge"),
    *("post-index-change", "reference-transaction", "pre-merge-commit", "pre-push", "post-rewrite"),
)


def use(**config: str) -> Prepare:
    """Let git's configuration name programs of the project; `__` stands for a dot."""

    def prepare(scene: Scene) -> None:
        for path in {
            value.removeprefix("./").split()[0] for value in config.values() if value.startswith("./")
        }:
            scene.write(path, "#!/bin/sh\ncat\n", 0o755)
        scene.commit()
        for name, value in config.items():
            scene.place.git("config", name.replace("__", "."), value)

    return prepare


def both(*steps: Prepare) -> Prepare:
    """Do one after the other."""

    def prepare(scene: Scene) -> None:
        for step in steps:
            step(scene)

    return prepare


def counts_as_done(scene: Scene) -> Iterator[str]:
    """Find a task that nobody worked on and that counts as done."""
    started = {event["task"] for event in scene.place.events("task.started")}
    for task in scene.place.json("status", "last")["tasks"]:
        if task["state"] == "done" and task["key"] not in started:
            yield f"task {task['key']} counts as done"


def _hook(scene: Scene) -> None:
    """Let a hook of the user call a script of the project."""
    scene.write(".git/hooks/pre-commit", "#!/bin/sh\nsh scripts/lint.sh\n", 0o755)


REPOSITORIES = (
    Escape(
        "new hooks in the tree",
        f"for name in {ALL_HOOKS}: plant(f'.husky/{{name}}')",
        prepare=use_husky,
        named=r"\.husky|hook",
    ),
    Escape(
        "script that a hook calls",
        "plant('scripts/lint.sh')",
        prepare=both(
            lambda scene: scene.commit(**{"scripts/lint.sh": "exit 0\n"}),
            _hook,
        ),
    ),
    Escape(
        "update command of a submodule",
        """
plant("tools/update.sh")
append(".gitmodules", f'[submodule "vendor/lib"]\\n\\tupdate = !{REPO}/tools/update.sh\\n')
write("vendor/lib/code.py", "y = 2\\n")
""",
        prepare=add_submodule,
    ),
    Escape(
        "repository inside",
        """
config = monitor()
make_repository("inner", config)
make_repository("docs/deep/inner", config)
""",
        named="inner",
        git=LOOK,
    ),
)
