"""Git: everything it reads may start a program, include a file or lead elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

from tests.isolation.escapes.cases.shown import activate, add_submodule, use_husky
from tests.isolation.escapes.escape import Escape, Prepare
from tests.isolation.escapes.scene import Scene

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


def attribute(text: str) -> Prepare:
    """Give files attributes."""
    return lambda scene: scene.commit(**{".gitattributes": text})


def counts_as_done(scene: Scene) -> Iterator[str]:
    """Find a task that nobody worked on and that counts as done."""
    started = {event["task"] for event in scene.place.events("task.started")}
    for task in scene.place.json("status", "last")["tasks"]:
        if task["state"] == "done" and task["key"] not in started:
            yield f"task {task['key']} counts as done"


def _hook(scene: Scene) -> None:
    """Let a hook of the user call a script of the project."""
    scene.write(".git/hooks/pre-commit", "#!/bin/sh\nsh scripts/lint.sh\n", 0o755)


def keep_state_elsewhere(scene: Scene) -> None:
    """Let a folder of the project be looked at by itself."""
    scene.commit(**{"docs/index.md": "x"})


REPOSITORIES = (
    Escape(
        "filter in the tree",
        "plant('tools/clean.sh', then='cat'); write('new.bin', 'x')",
        prepare=both(
            attribute("*.bin filter=big\n"),
            use(filter__big__clean="./tools/clean.sh", filter__big__smudge="./tools/clean.sh"),
        ),
    ),
    Escape(
        "filter that the agent switches on",
        "plant('tools/clean.sh', then='cat'); write('.gitattributes', '* filter=big diff=big merge=big\\n')",
        prepare=use(
            filter__big__clean="./tools/clean.sh",
            diff__big__textconv="./tools/clean.sh",
            merge__big__driver="./tools/clean.sh %A",
        ),
    ),
    Escape(
        "long-running filter in the tree",
        "plant('tools/filter.sh'); write('new.bin', 'x')",
        prepare=both(attribute("*.bin filter=big\n"), use(filter__big__process="./tools/filter.sh")),
    ),
    Escape(
        "LFS in the environment",
        "plant('.venv/bin/git-lfs', then='cat'); write('new.bin', 'x')",
        prepare=both(
            activate,
            use(filter__lfs__clean="git-lfs clean -- %f", filter__lfs__smudge="git-lfs smudge -- %f"),
            attribute("*.bin filter=lfs\n"),
        ),
    ),
    Escape(
        "textconv in the tree",
        "plant('tools/conv.sh', then='cat'); write('code.py', 'y = 2\\n')",
        prepare=both(attribute("*.py diff=x\n"), use(diff__x__textconv="./tools/conv.sh")),
    ),
    Escape(
        "external diff in the tree",
        "plant('tools/diff.sh'); write('code.py', 'y = 2\\n')",
        prepare=use(diff__external="./tools/diff.sh"),
    ),
    Escape(
        "merge driver in the tree",
        "plant('tools/merge.sh'); write('code.py', 'y = 2\\n')",
        means=("lanes", "landlock lanes"),
        prepare=both(attribute("*.py merge=x\n"), use(merge__x__driver="./tools/merge.sh %O %A %B")),
    ),
    Escape(
        "file monitor in the tree",
        "plant('tools/watch.sh')",
        prepare=use(core__fsmonitor="./tools/watch.sh"),
    ),
    Escape(
        "signing program in the tree",
        "plant('tools/sign.sh', then='exit 1')",
        prepare=use(gpg__program="./tools/sign.sh", commit__gpgSign="true", user__signingKey="x"),
    ),
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
        "submodule with another folder of git",
        """
make_repository("evil", monitor())
write("vendor/lib/.git", "gitdir: ../../evil/.git\\n")
""",
        prepare=add_submodule,
        named="vendor/lib|submodule",
        git=LOOK,
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
    Escape(
        "bare repository in a folder",
        """
git("init", "--quiet", "--bare", at="docs")
write("docs/config", f"[core]\\n\\tbare = false\\n\\tworktree = {REPO}/docs\\n" + monitor("docs/watch"))
""",
        prepare=keep_state_elsewhere,
        then=(("status", "-C", "docs"), ("doctor", "-C", "docs"), ("run", "plan.md", "-C", "docs")),
    ),
    Escape(
        "hooks of lanes",
        "for folder in (REPO / '.git').glob('worktrees/*'): plant(folder / 'hooks' / 'post-commit')\n"
        f"for name in {ALL_HOOKS}: plant(Path(git('rev-parse', '--git-path', f'hooks/{{name}}')))",
        means=("lanes", "landlock lanes"),
    ),
)
