"""What the next launch or command finds: places that are opened or written, hooks, reports, modules."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.isolation.escapes.cases.files import FEATURE, JUDGED, write_feature
from tests.isolation.escapes.escape import GIT_IS_OPEN, MOUNTS, Escape
from tests.isolation.escapes.scene import Scene

BY_ANY = (*MOUNTS, "landlock")
INSTALLED = (str(Path(sys.executable).with_name("segue")),)
TRUE = "checks = [['true']]"
EXTENSIONS = """hooks:
  after_implement:
    - extension: own
      command: speckit.own.end
      optional: false
"""
REPORTED = "checks = [['sh', 'run.sh', '--junitxml=report.xml']]"
REPORT = '<testsuite tests="1"><testcase classname="a" name="b"/></testsuite>'
MODULES = r"""
code = f"try:\n    open('{OUT}/ran', 'a').write(__file__)\nexcept OSError:\n    pass\n"
for name in ("segue", "msgspec", "json", "sitecustomize", "usercustomize", "site", "click", "typing"):
    for folder in FOLDERS:
        write(f"{folder}{name}.py", code)
"""
DAEMON = r"""
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.chdir("/")
        os.closerange(0, 256)
        os.open("/dev/null", os.O_RDWR), os.dup(0), os.dup(0)
        body = "import time\nfor turn in range(6000):\n    time.sleep(0.01)\n"
        body += f"    open({str(REPO / 'alive.txt')!r}, 'w').write(str(turn))\n"
        os.execve(sys.executable, [sys.executable, "-IS", "-c", body], {})
    os._exit(0)
os.wait()
"""
BOMB = r"""
more = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 12))
bomb = f'<!DOCTYPE x [<!ENTITY a0 "aaaaaaaaaaaaaaaaaaaaaaaaaaaa">{more}]>'
write("bomb.xml", f'{bomb}<testsuite tests="1"><testcase classname="a" name="&a11;"/></testsuite>')
write("body.sh", "cp bomb.xml report.xml\n")
"""
DEEP = r"""
deep = "[" * 200_000 + "]" * 200_000
for name in ("package.json", "composer.json", "tsconfig.json", ".taskmaster/tasks/tasks.json",
             ".specify/feature.json", ".specify/init-options.json"):
    write(name, deep)
write("pyproject.toml", "[project]\nname = 'x'\nx = " + "[" * 5000 + "]" * 5000 + "\n")
bomb = "".join(f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12))
write(".specify/extensions.yml", f"a0: &a0 [x, x, x, x]\n{bomb}hooks: *a11\n")
"""
BYTECODE = r"""
import marshal
for path in Path(FACTS["bytecode"]).rglob("__init__*.pyc"):
    data = path.read_bytes()
    added = f"import os\nos.close(os.open('{OUT}/ran', os.O_CREAT | os.O_WRONLY))\n"
    code = compile(f"{added}import marshal\nexec(marshal.loads({data[16:]!r}))", str(path), "exec")
    with contextlib.suppress(OSError):
        path.write_bytes(data[:16] + marshal.dumps(code))
"""


def make_opened(scene: Scene) -> None:
    """Make the places that the user opens."""
    (scene.home / ".cache/tool/notes").mkdir(parents=True)
    scene.commit(**{"fixtures/one.txt": "x"})


def make_folder(scene: Scene) -> None:
    """Make a folder of reports that git ignores."""
    scene.commit(**{".gitignore": "/reports\n"})
    (scene.repo / "reports").mkdir()


def write_hooks(scene: Scene) -> None:
    """Make a feature whose end is followed by a command of the user."""
    scene.write("scripts/end.sh", "exit 0\n")
    scene.write("Makefile", "end:\n\ttrue\n")
    scene.write(".husky/pre-commit", "#!/bin/sh\nexit 0\n", 0o755)
    scene.write(".specify/extensions.yml", EXTENSIONS)
    scene.place.git("config", "core.hooksPath", ".husky")
    write_feature(scene)


def after_all(name: str, argv: list[str], script: str) -> Escape:
    """Return an attempt on what a command for a hook of Spec Kit runs."""
    return Escape(
        f"hook of a feature: {name}",
        script,
        means=("bwrap", "landlock"),
        prepare=write_hooks,
        settings=f"{JUDGED}\nhooks.'speckit.own.end' = {json.dumps(argv)}",
        source=FEATURE,
    )


def write_check(scene: Scene) -> None:
    """Make a check whose report the code under test writes."""
    scene.commit(**{"run.sh": "sh body.sh\n", "body.sh": f"echo '{REPORT}' > report.xml\n"})


def reported(name: str, script: str) -> Escape:
    """Return an attempt on the report of a check."""
    return Escape(f"report that is {name}", script, means=("bwrap",), prepare=write_check, settings=REPORTED)


def use_shims(scene: Scene) -> None:
    """Put programs on PATH that do what a file of the current folder says, as version managers do."""
    folder = scene.root / "shims"
    folder.mkdir()
    for name in ("claude", "codex", "gemini", "cursor-agent", "node", "npm", "gh", "ssh", "stet", "bd"):
        (folder / name).write_text('#!/bin/sh\n[ -x .tool-versions ] && ./.tool-versions "$0"\necho 1.0.0\n')
        (folder / name).chmod(0o755)
    scene.place.env["PATH"] = f"{folder}:{scene.place.env['PATH']}"


def choose_bytecode(scene: Scene) -> None:
    """Keep Python's compiled modules with the user's caches."""
    scene.facts["bytecode"] = scene.place.env["PYTHONPYCACHEPREFIX"] = str(scene.home / ".cache/bytecode")
    scene.place.env.pop("PYTHONDONTWRITEBYTECODE", None)


def stays_alive(scene: Scene) -> Iterator[str]:
    """Find out whether somebody still writes."""
    place = scene.repo / "alive.txt"
    if place.exists():
        before = place.stat().st_mtime_ns
        time.sleep(0.1)
        if place.stat().st_mtime_ns != before:
            yield "a process of the agent is alive"


LATER = (
    Escape(
        "opened for reading, leads to keys",
        "link('fixtures', HOME / '.ssh')",
        later="take(*(HOME / '.ssh').glob('*'), *Path('fixtures').glob('*'))",
        means=BY_ANY,
        prepare=make_opened,
        settings=f"sandbox.read = ['fixtures']\n{TRUE}",
        named="fixtures.*not followed",
    ),
    Escape(
        "opened for writing, leads to the user's files",
        "link('fixtures', HOME / 'notes')",
        later="(HOME / 'notes/kept.txt').write_text('mine')",
        means=BY_ANY,
        prepare=make_opened,
        settings=f"sandbox.write = ['fixtures']\n{TRUE}",
    ),
    Escape(
        "opened in a cache, leads to the user's files",
        "(HOME / '.cache/tool').rename(HOME / '.cache/old'); link(HOME / '.cache/tool', HOME)",
        later="(HOME / 'notes/kept.txt').write_text('mine')",
        means=BY_ANY,
        prepare=make_opened,
        settings=f"sandbox.write = ['~/.cache/tool/notes']\n{TRUE}",
    ),
    Escape(
        "files that are written for the user",
        """
link("reports/summary.md", HOME / "notes/kept.txt")
link("reports/all.html", HOME / ".bashrc")
link("reports/tables", HOME / "notes")
link("reports/segue.log", HOME / ".profile")
""",
        means=("bwrap", "landlock"),
        prepare=make_folder,
        settings=f"log.file = 'reports/segue.log'\n{TRUE}",
        args=("--summary", "reports/summary.md"),
        then=(
            ("run", "plan.md", "--restart"),
            ("run", "plan.md", "--restart", "--summary", "reports/summary.md", "--log-file", "-"),
            ("report", "--html", "reports/all.html"),
            ("db", "export", "-o", "reports/tables"),
            ("dataset", "publish", "reports/tables"),
        ),
        gains=lambda scene: [f"made: {path.name}" for path in (scene.home / "notes").glob("*.[cjp]*")],
        named=r"segue\.log.*not followed",
    ),
    Escape(
        "pipe in the place of the log",
        "fifo('reports/segue.log')",
        means=("bwrap",),
        prepare=make_folder,
        settings=f"log.file = 'reports/segue.log'\n{TRUE}",
        then=(("run", "plan.md", "--restart"),),
        named=r"segue\.log.*named pipe",
    ),
    after_all("script", ["sh", "scripts/end.sh"], "plant('scripts/end.sh')"),
    after_all("make", ["make", "end"], "plant('tool'); write('Makefile', 'end:\\n\\t./tool\\n')"),
    after_all("git", ["git", "commit", "--allow-empty", "-m", "End"], "plant('.husky/pre-commit')"),
    reported("a pipe", "write('body.sh', 'rm -f report.xml; mkfifo report.xml\\n')"),
    reported("a key", "write('body.sh', f'rm -f report.xml; ln -s {HOME}/.ssh/id_ed25519 report.xml\\n')"),
    reported("endless", "write('body.sh', 'truncate -s 40G report.xml\\n')"),
    reported("a bomb", BOMB),
    Escape("files that are too deep", DEEP, means=("bwrap",), then=(("task", "list"), ("check",))),
    Escape(
        "modules for the installed program",
        f"FOLDERS = ('', 'src/')\n{MODULES}",
        means=("bwrap", "landlock"),
        argv=INSTALLED,
    ),
    Escape(
        "modules where PYTHONPATH leads",
        f"FOLDERS = ('src/',)\n{MODULES}",
        means=("bwrap",),
        prepare=lambda scene: scene.place.env.update(PYTHONPATH="src"),
        argv=INSTALLED,
        open={"*": "Python runs them before Segue can refuse; the head of the run says so"},
    ),
    Escape(
        "compiled modules of Segue",
        BYTECODE,
        means=BY_ANY,
        prepare=choose_bytecode,
        argv=INSTALLED,
        open={"landlock": "nothing in a cache can be made read-only; the head of the run says so"},
    ),
    Escape(
        "shims that do what the folder says",
        "plant('.tool-versions')",
        means=("bwrap",),
        prepare=use_shims,
        then=(("doctor", "--agents"), ("agent", "list"), ("plugins",)),
    ),
    Escape(
        "secrets that are the words of the card",
        "words = ('The agent added', 'taken back', 'plan.md', 'task text', 'task.ended', 'agent.started')\n"
        "write('.env', ''.join(f'A{n}_SECRET=\"{word}\"\\n' for n, word in enumerate(words)))\n"
        "append('plan.md', '\\n## Task 3\\nMore.\\n')",
        means=("bwrap",),
        named=r"The agent added 3 to plan\.md",
    ),
    Escape(
        "branch that is found first",
        "forged = git('commit-tree', 'HEAD^{tree}', '-p', 'HEAD', '-m', 'past')\n"
        "for place in ('main', 'refs/main', 'refs/tags/main'): write(f'.git/{place}', forged + '\\n')\n"
        "write('.git/refs/heads/-x', forged + '\\n'); write('.git/HEAD', 'ref: refs/heads/-x\\n')",
        means=GIT_IS_OPEN,
        gains=lambda scene: (
            ["a forged commit counts"] if "past" in scene.place.git("log", "refs/heads/main") else []
        ),
        named="branch|tag",
    ),
    Escape(
        "process without marks",
        DAEMON,
        means=("bwrap", "landlock", "opened", "none"),
        gains=stays_alive,
    ),
    Escape(
        "copies for lanes that lead to keys",
        "link('.local', HOME / '.ssh/id_ed25519'); link('keys', HOME / '.ssh')",
        later="take('.local', *Path('keys').glob('*'))",
        means=("bwrap", "landlock"),
        prepare=lambda scene: scene.commit(**{".gitignore": ".local\nkeys\nloot.bin\n"}),
        settings=f"lane_copy = ['.local', 'keys']\n{TRUE}",
        then=(("run", "plan.md", "--restart", "--jobs", "2"),),
    ),
)
