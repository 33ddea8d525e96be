"""Git's own folder, where agents may write to it: because of Landlock, or because the user opened it."""

from __future__ import annotations

from tests.slow.escapes.cases.repositories import LOOK, counts_as_done
from tests.slow.escapes.escape import GIT_IS_OPEN, Escape

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
)
