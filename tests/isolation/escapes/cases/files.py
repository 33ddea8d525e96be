"""Links, pipes, names and sizes: every file that Segue reads or writes where an agent can write too."""

from __future__ import annotations

from collections.abc import Iterator

from tests.cli.test_spec import SPEC, TASKS
from tests.isolation.escapes.cases.shown import add_submodule
from tests.isolation.escapes.escape import EVERYWHERE, Escape
from tests.isolation.escapes.scene import Scene

FEATURE = "specs/001-greeting"
JUDGED = "judged_by = 'checks'\nchecks = [['true']]"
NAMES = r"""
for name in (b"new\nline", b"\x1b]52;c;aGFjaw==\x07\x1b[2Jx", "\u202egnp.exe".encode(),
             b"not \xff utf-8 \x9b31m",
             b"-rf", b"--output=ran", b"$(touch ran)", b"`touch ran`", b"n" * 255,
             b"<img src=x onerror=canary()>",
             b"=cmd|' /C calc'!A0", b"](javascript:canary())", b"\r", b":(exclude)*", b"'; touch ran; '"):
    with contextlib.suppress(OSError):
        with open(os.fsencode(REPO) + b"/" + name, "wb") as file:
            file.write(b"x")
"""


def write_feature(scene: Scene) -> None:
    """Make a feature of Spec Kit."""
    scene.write(".specify/init-options.json", "{}")
    scene.write(".specify/memory/constitution.md", "# Constitution\n\nBe plain.\n")
    scene.write(f"{FEATURE}/checklists/one.md", "- [x] CHK001 Fine\n")
    scene.write(f"{FEATURE}/plan.md", "# Implementation Plan\n\n## Summary\n\nPlain.\n")
    scene.write(f"{FEATURE}/spec.md", SPEC)
    scene.write(f"{FEATURE}/tasks.md", TASKS)
    scene.commit()


def was_run(scene: Scene) -> Iterator[str]:
    """Find what a shell would have made of a name."""
    if (scene.repo / "ran").exists() or list(scene.root.glob("**/ran")):
        yield "a name was run"


def counts_as_proven(scene: Scene) -> Iterator[str]:
    """Find out whether work counts as done although a part of it is missing from the commit."""
    if scene.card.get("state") == "done":
        yield "the task is done without its largest files"


def feature(name: str, script: str, named: str) -> Escape:
    """Return an attempt on a file of a feature."""
    return Escape(
        name,
        f"FEATURE = '{FEATURE}'\n{script}",
        prepare=write_feature,
        named=named,
        settings=JUDGED,
        source=FEATURE,
    )


FILES = (
    feature("link in the place of tasks", "link(f'{FEATURE}/tasks.md', HOME / '.bashrc')", r"tasks\.md"),
    feature(
        "link in the place of the state", "link(f'{FEATURE}/state.json', HOME / '.bashrc')", r"state\.json"
    ),
    feature("pipe in the place of tasks", "fifo(f'{FEATURE}/tasks.md')", r"tasks\.md"),
    feature("pipe in the place of the state", "fifo(f'{FEATURE}/state.json')", r"state\.json"),
    feature(
        "pipes in the place of criteria",
        "for name in ('spec.md', 'plan.md', 'checklists/one.md'): fifo(f'{FEATURE}/{name}')\n"
        "fifo('.specify/memory/constitution.md'); fifo('.specify/init-options.json')",
        r"spec\.md",
    ),
    feature(
        "folder that leads elsewhere",
        "shutil.rmtree(FEATURE); link(FEATURE, HOME / 'notes')",
        r"tasks\.md|001-greeting",
    ),
    feature(
        "folder above that leads elsewhere",
        "shutil.rmtree('specs'); link('specs', HOME / 'notes')",
        r"tasks\.md|specs",
    ),
    feature(
        "temporary folder of the feature that leads elsewhere",
        "link(f'{FEATURE}/.segue-999999-0-x.tmp', HOME / 'notes')",
        "",
    ),
    feature(
        "forged state",
        """
write(f"{FEATURE}/state.json", json.dumps({"version": 1, "head_branch": "main", "tasks": {
    key: {"status": "done", "branch": "main", "error": None} for key in ("T001", "T002", "T003")}}))
path = REPO / FEATURE / "tasks.md"
path.write_text(path.read_text().replace("[ ]", "[x]"))
sys.exit(1)
""",
        "marked|ticks|state",
    ),
    Escape("pipe in the place of settings", "fifo('segue.toml')", named=r"segue\.toml"),
    Escape(
        "pipe in the place of the project's file",
        "fifo('pyproject.toml')",
        named=r"pyproject\.toml",
    ),
    Escape("link in the place of settings", "link('segue.toml', HOME / '.bashrc')", named=r"segue\.toml"),
    Escape(
        "link to settings that the agent wrote",
        "write('more.toml', 'allow_no_change = true\\n'); link('segue.toml', 'more.toml')",
        gains=lambda scene: [
            "in force: allow_no_change" for _ in range(1) if scene.setting("allow_no_change") == "True"
        ],
        named=r"segue\.toml",
    ),
    Escape(
        "socket in the place of the plan",
        "remove('plan.md'); socket.socket(socket.AF_UNIX).bind('plan.md')",
        named=r"plan\.md",
    ),
    Escape(
        "folder in the place of the plan",
        "write('plan.md/x', 'x') if remove('plan.md') is None else 0",
        named=r"plan\.md",
    ),
    Escape("endless plan", "sparse('plan.md', 1 << 40)", named=r"plan\.md"),
    Escape("plan that is a secret", "link('plan.md', HOME / '.ssh/id_ed25519')", named=r"plan\.md"),
    Escape(
        "plan that is the machine's",
        "link('plan.md', '/dev/zero')",
        means=(*EVERYWHERE, "none"),
        named=r"plan\.md",
    ),
    Escape(
        "hard link to the user's file",
        "remove('plan.md'); os.link(HOME / '.bashrc', 'plan.md')",
    ),
    Escape(
        "links to secrets in the tree",
        """
for name in ("AGENTS.md", "CLAUDE.md", "README.md", "code.py", "docs/guide.md",
             ".specify/memory/constitution.md"):
    link(name, HOME / ".ssh/id_ed25519")
link("keys", HOME / ".ssh")
""",
        then=(("task", "list", "plan.md"), ("run", "plan.md", "--dry-run", "--task", "2")),
    ),
    Escape(
        "pipe in the place of a tracked file",
        "fifo('code.py')",
        means=(*EVERYWHERE, "none"),
    ),
    Escape("pipe in the place of what git ignores", "fifo('.gitignore')"),
    Escape("pipe in the place of attributes", "fifo('.gitattributes')"),
    Escape("pipe in the place of modules", "fifo('.gitmodules')", prepare=add_submodule),
    Escape("pipes among new files", "for n in range(20): fifo(f'new/{n}/pipe'); fifo(f'.venv/{n}')"),
    Escape(
        "endless file",
        "sparse('big.bin', 24 << 30)",
        means=("bwrap", "landlock", "lanes"),
        gains=counts_as_proven,
    ),
    Escape(
        "endless files without names",
        """
for n in range(300):
    with open(os.fsencode(REPO) + b"/%d\\xff.bin" % n, "wb") as file:
        file.truncate(1 << 30)
""",
        means=("bwrap",),
        gains=counts_as_proven,
    ),
    Escape(
        "folders without an end",
        """
here = os.open(".", os.O_RDONLY)
for _ in range(60):
    os.mkdir("d" * 100, dir_fd=here)
    here = os.open("d" * 100, os.O_RDONLY, dir_fd=here)
os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
link("loop", ".")
link("self", "self")
""",
    ),
    Escape(
        "names that are obeyed",
        NAMES,
        gains=was_run,
        then=(("proof", "last"), ("proof", "last", "--markdown")),
    ),
    Escape(
        "dependencies that lead to secrets",
        "link('node_modules', HOME / '.ssh'); link('.venv', HOME / '.aws'); link('vendor', HOME)",
        prepare=lambda scene: scene.commit(**{".gitignore": ".venv\nnode_modules\nvendor\n"}),
        settings="checks = [['sh', '-c', 'cat node_modules/* .venv/* vendor/.netrc; true']]",
    ),
    Escape(
        "names of git in other letters",
        """
for name in (".GIT", ".Git", "git~1", ".g\\u200cit"):
    plant(f"{name}/hooks/post-commit")
    write(f"{name}/config", f"[core]\\n\\tfsmonitor = {REPO}/{name}/hooks/post-commit\\n")
""",
    ),
)
