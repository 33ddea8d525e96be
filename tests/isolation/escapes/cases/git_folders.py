"""Git's own folder, where agents may write to it: because of Landlock, or because the user opened it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.isolation.escapes.cases.repositories import ALL_HOOKS, LOOK, counts_as_done, use
from tests.isolation.escapes.escape import GIT_IS_OPEN, Escape
from tests.isolation.escapes.scene import Scene


def has_ref(prefix: str) -> Callable[[Scene], Iterator[str]]:
    """Find refs that the agent has made and that are still there."""

    def gains(scene: Scene) -> Iterator[str]:
        if found := scene.place.git("for-each-ref", prefix, "--format=%(refname)").split():
            yield f"still there: {found}"

    return gains


def is_there(path: str) -> Callable[[Scene], Iterator[str]]:
    """Find a file that must not be there."""

    def gains(scene: Scene) -> Iterator[str]:
        if (scene.repo / path).exists():
            yield f"still there: {path}"

    return gains


IN_CONFIG = (
    *("core.sshCommand", "core.editor", "core.pager", "core.askPass", "diff.external", "gpg.program"),
    *("gpg.ssh.program", "credential.helper", "sequence.editor", "core.alternateRefsCommand"),
    *(
        "uploadpack.packObjectsHook",
        "filter.x.clean",
        "filter.x.smudge",
        "filter.x.process",
        "merge.x.driver",
    ),
    *("diff.x.textconv", "diff.x.command", "trailer.segue-step.command", "trailer.x.cmd", "core.gitProxy"),
    *("remote.origin.uploadpack", "remote.origin.receivepack", "remote.origin.vcs", "interactive.diffFilter"),
    *(
        "pager.log",
        "pager.status",
        "browser.x.cmd",
        "mergetool.x.cmd",
        "difftool.x.cmd",
        "sendemail.smtpServer",
    ),
)
GIT_FOLDERS = (
    Escape(
        "configuration that names programs",
        f"""
for key in {IN_CONFIG}:
    git("config", key, str(plant(f"tools/{{key}}.sh")))
git("config", "commit.gpgSign", "true")
write(".gitattributes", "* filter=x diff=x merge=x\\n")
write("code.py", "y = 2\\n")
""",
        means=GIT_IS_OPEN,
        named="git configuration|config",
        git=LOOK,
    ),
    Escape(
        "harmless sections that name programs",
        """
for key in ("remote.origin.uploadpack", "remote.origin.receivepack", "remote.origin.proxy",
            "branch.main.mergeOptions"):
    git("config", key, str(plant(f"tools/{key}.sh")))
git("config", "remote.origin.url", str(REPO / ".git"))
git("config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*")
""",
        means=GIT_IS_OPEN,
        git=(("fetch", "--quiet"), ("push", "--quiet", "origin", "HEAD:refs/heads/other")),
        named="git configuration|config|remote",
    ),
    Escape(
        "configuration with an include",
        """
write("included", monitor())
append(".git/config", f"[branch] [include] path = {REPO}/included\\n")
append(".git/config", f'[gc] [includeIf "gitdir:**"] path = {REPO}/included\\n')
""",
        means=GIT_IS_OPEN,
        named="git configuration|config",
        git=LOOK,
    ),
    Escape(
        "configuration continued in the next line",
        """
append(".git/config", '[user]\\n\\temail = "x" ;\\n[user "a\\\\"]"] ' + monitor())
""",
        means=GIT_IS_OPEN,
        named="git configuration|config",
        git=LOOK,
    ),
    Escape(
        "configuration of the work tree",
        """
write(".git/config.worktree", monitor())
""",
        means=GIT_IS_OPEN,
        prepare=use(extensions__worktreeConfig="true"),
        named="git configuration|config",
        git=LOOK,
    ),
    Escape(
        "work tree elsewhere",
        "append('.git/config', f'[user] [core] worktree = {HOME}/notes\\n')",
        means=GIT_IS_OPEN,
        named="git configuration|config",
    ),
    Escape(
        "hooks of git",
        f"for name in {ALL_HOOKS}: plant(f'.git/hooks/{{name}}')",
        means=GIT_IS_OPEN,
        named="hooks",
        git=(("commit", "--allow-empty", "-m", "mine"),),
    ),
    Escape(
        "file in the place of .git",
        """
os.rename(".git", "moved")
append("moved/config", monitor())
write(".git", f"gitdir: {REPO}/moved\\n")
""",
        means=("landlock",),
        named="git",
    ),
    Escape(
        "rebase that runs a program",
        """
plant("tools/step.sh")
head = git("rev-parse", "HEAD")
for name, text in {
    "git-rebase-todo": f"exec {REPO}/tools/step.sh\\n",
    "head-name": "refs/heads/main",
    "onto": head,
    "orig-head": head,
    "interactive": "",
    "done": "",
}.items():
    write(f".git/rebase-merge/{name}", text)
""",
        means=GIT_IS_OPEN,
        named="rebase",
        git=(("rebase", "--continue"),),
    ),
    Escape(
        "replaced commits",
        """
tree = git("rev-parse", "HEAD^{tree}")
forged = git("commit-tree", tree, "-m", "forged")
git("replace", "HEAD", forged)
""",
        means=GIT_IS_OPEN,
        gains=has_ref("refs/replace"),
        named="replace",
    ),
    Escape(
        "grafts and alternates",
        """
shutil.copytree(".git/objects", "objects")
write(".git/objects/info/alternates", f"{REPO}/objects\\n")
write(".git/info/grafts", git("rev-parse", "HEAD") + "\\n")
""",
        means=GIT_IS_OPEN,
        gains=is_there(".git/objects/info/alternates"),
        named="alternates|grafts",
    ),
    Escape(
        "pipe in the place of refs", "fifo('.git/packed-refs')", means=GIT_IS_OPEN, named="packed-refs|git"
    ),
    Escape("pipe in the place of HEAD", "fifo('.git/HEAD')", means=GIT_IS_OPEN, named="HEAD|git"),
    Escape("pipe in the place of the index", "fifo('.git/index')", means=GIT_IS_OPEN, named="index|git"),
    Escape(
        "pipe in the place of the configuration", "fifo('.git/config')", means=GIT_IS_OPEN, named="config|git"
    ),
    Escape(
        "pipe in the place of a ref",
        "fifo('.git/refs/heads/main')",
        means=GIT_IS_OPEN,
        named="main|git|history",
    ),
    Escape(
        "branch whose name is an option",
        """
name = f"refs/heads/--output={OUT}/ran"
git("update-ref", name, "HEAD")
git("symbolic-ref", "HEAD", name)
""",
        means=GIT_IS_OPEN,
        named="branch|HEAD|refs|history",
    ),
    Escape(
        "names that a terminal obeys",
        r"""
git("update-ref", "refs/heads/evil\u202egnp", "HEAD")
git("commit", "--quiet", "--allow-empty", "--message=\x1b]52;c;aGFjaw==\x07\x1b[2J \u202eevil")
git("tag", "-m", "\x1b[2J", "v\u2066x")
write("new", "x")
git("stash", "push", "--all", "--quiet", "--message=\x1b[31m\u202estash")
""",
        means=GIT_IS_OPEN,
    ),
    Escape(
        "flags of the index",
        "git('update-index', '--skip-worktree', 'code.py'); write('code.py', 'y = 2\\n')",
        means=GIT_IS_OPEN,
        named="hid|hidden|index",
    ),
    Escape(
        "sparse checkout",
        """
write(".git/info/sparse-checkout", "/plan.md\\n")
git("config", "core.sparseCheckout", "true")
git("read-tree", "-mu", "HEAD")
write("code.py", "y = 2\\n")
""",
        means=GIT_IS_OPEN,
        named="git configuration|hid|sparse",
    ),
    Escape(
        "trailers of another task",
        """
run = os.environ.get("SEGUE_RUN", "")
git("commit", "--quiet", "--allow-empty", "-m",
    f"Task 2\\n\\nSegue-Run: {run}\\nSegue-Task: 2\\nSegue-Agent: command\\nSegue-Step: {run}-task-2\\n")
git("update-ref", f"refs/segue/kept/{run}/2", "HEAD")
sys.exit(1)
""",
        means=GIT_IS_OPEN,
        gains=counts_as_done,
    ),
    Escape(
        "lock that leads elsewhere",
        "link('.git/segue.lock', HOME / '.bashrc'); link('.git/index.lock', HOME / '.profile')",
        means=GIT_IS_OPEN,
    ),
    Escape(
        "temporary folder that leads elsewhere",
        "link('.git/.segue-999999-0-x.tmp', HOME / 'notes')",
        means=GIT_IS_OPEN,
    ),
    Escape(
        "objects that lead elsewhere",
        "shutil.copytree('.git/objects', 'kept'); link('.git/objects', HOME / 'notes')",
        means=GIT_IS_OPEN,
        named="objects|git",
    ),
)
