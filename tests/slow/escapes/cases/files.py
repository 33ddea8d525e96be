"""Links, pipes, names and sizes: every file that Segue reads or writes where an agent can write too."""

from __future__ import annotations

from collections.abc import Iterator

from tests.cli.test_spec import SPEC, TASKS
from tests.slow.escapes.escape import EVERYWHERE, Escape
from tests.slow.escapes.scene import Scene

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
        "pipes in the place of criteria",
        "for name in ('spec.md', 'plan.md', 'checklists/one.md'): fifo(f'{FEATURE}/{name}')\n"
        "fifo('.specify/memory/constitution.md'); fifo('.specify/init-options.json')",
        r"spec\.md",
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
        "link to settings that the agent wrote",
        "write('more.toml', 'allow_no_change = true\\n'); link('segue.toml', 'more.toml')",
        gains=lambda scene: [
            "in force: allow_no_change" for _ in range(1) if scene.setting("allow_no_change") == "True"
        ],
        named=r"segue\.toml",
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
    Escape(
        "names that are obeyed",
        NAMES,
        gains=was_run,
        then=(("proof", "last"), ("proof", "last", "--markdown")),
    ),
)
