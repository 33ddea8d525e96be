"""More than a hundred mistakes that people make, each with the exit code and what the message must say."""

from __future__ import annotations

import contextlib
import io
import shutil
import socket
import sqlite3
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from segue.cli.main import run
from segue.domain.run import Origin, RunKind, RunSpec
from segue.store import connect

Prepare = Callable[[Path], object]
"""Makes the mistake in a repository with a plan of two tasks."""


@dataclass
class Mistake:
    """A command that is wrong, and what its message must contain."""

    command: str
    code: int
    says: tuple[str, ...]
    prepare: Prepare = lambda _repo: None
    env: dict[str, str] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    """The words of the command, where they do not follow from spaces."""

    @property
    def args(self) -> tuple[str, ...]:
        return self.words or tuple(self.command.split())


def toml(text: str) -> Prepare:
    return lambda repo: (repo / "segue.toml").write_text(text)


def file(name: str, data: str | bytes) -> Prepare:
    """Commit a file."""

    def write(repo: Path) -> None:
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_bytes(data if isinstance(data, bytes) else data.encode())
        commit(repo)

    return write


def commit(repo: Path) -> None:
    for args in (["add", "--all"], ["commit", "--quiet", "-m", "more"]):
        subprocess.run(["git", *args], cwd=repo, check=True)


def all_of(*steps: Prepare) -> Prepare:
    return lambda repo: [step(repo) for step in steps]


def feature(repo: Path) -> None:
    (repo / ".specify").mkdir()
    tasks = "# Tasks\n\n## Phase 1: Setup\n\n- [ ] T001 Create src/a.py\n- [ ] T002 Create src/b.py\n"
    file("specs/001-login/tasks.md", tasks)(repo)


def done(_repo: Path) -> None:
    """Let task 1 be done."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        assert run(["run", "plan.md", "--agent", "scripted", "--task", "1", "--yes"]) == 0


def changed(repo: Path) -> None:
    """Let there be work that is not committed."""
    (repo / "new.py").write_text("x = 1\n")


def _database(repo: Path) -> Path:
    folder = repo.parent / "state" / "segue"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "segue.db"


def hosted(repo: Path) -> None:
    """Give the repository a remote."""
    subprocess.run(["git", "remote", "add", "origin", "https://127.0.0.1:9/o/r"], cwd=repo, check=True)


def stored(repo: Path) -> None:
    """Store a conversation and a run of a fleet."""
    talk = RunSpec("bridge", "conversation", str(repo), "scripted", "bridge", kind=RunKind.CONVERSATION)
    far = RunSpec("planfile", "plan.md", str(repo), "scripted", "execute", origin=Origin("local:x", "c" * 40))
    with connect(str(_database(repo))) as store:
        store.enqueue({"talk": ("talk", talk), "far": ("far", far)})


def from_the_future(repo: Path) -> None:
    done(repo)
    with contextlib.closing(sqlite3.connect(_database(repo))) as connection, connection:
        connection.execute("INSERT INTO orchestrator_migrations VALUES (999, '999_new.sql', 0)")


def without_commits(repo: Path) -> None:
    shutil.rmtree(repo / ".git")
    subprocess.run(["git", "init", "--quiet"], cwd=repo, check=True)


def occupied() -> tuple[socket.socket, str]:
    """Return a port that is in use."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    return listener, str(listener.getsockname()[1])


RUN = "run plan.md --agent scripted"
LOOSE = "- [ ] one\n"
COMMANDS = [
    Mistake("logs 2", 2, ("There is no run in ", "segue run SOURCE")),
    Mistake("stauts", 2, ("There is no command 'stauts'.", "`segue status`")),
    Mistake("rum plan.md", 2, ("`segue run`",)),
    Mistake("plan.md", 2, ("`segue run plan.md`",)),
    Mistake("a sentence", 2, ("`segue run 'Build a todo app'`",), words=("Build a todo app",)),
    Mistake("help rum", 2, ("`segue run`",)),
    Mistake("db exprt", 2, ("`segue db export`",)),
    Mistake("task lsit", 2, ("`segue task list`",)),
    Mistake("config lst", 2, ("`segue config list`",)),
    Mistake("sim cursr", 2, ("`segue sim cursor`",)),
    Mistake("--verison", 2, ("Did you mean --version?",)),
    Mistake("completion powershell", 2, ("not 'powershell'", "fish")),
    Mistake("version", 2, ("`version` is `segue --version` here", "Type: segue --version")),
    Mistake("exit-codes --json", 2, ("Type: segue help exit-codes",)),
]
SOURCES = [
    Mistake("run plna.md --agent scripted", 2, ("plna.md does not exist", "Did you mean plan.md?")),
    Mistake("run todo --agent scripted", 2, ("todo does not exist", 'segue run "Build a todo app"')),
    Mistake("run specs/001-logn --agent scripted", 2, ("Did you mean specs/001-login?",), feature),
    Mistake("run 003 --agent scripted", 2, ("no Spec Kit folder 003", "specs/001-login"), feature),
    Mistake("run docs --agent scripted", 2, ("There is no tasks.md", "Next:"), file("docs/a.md", "x")),
    Mistake("run empty.md --agent scripted", 2, ("is empty", "## Task 1"), file("empty.md", "")),
    Mistake("run notes.md --agent scripted", 2, ("No heading", "## Task 1"), file("notes.md", "hello")),
    Mistake("run a.md --agent scripted", 2, ("is not UTF-8", "iconv"), file("a.md", b"## Task 1\ncaf\xe9")),
    Mistake("run b.md --agent scripted", 2, ("b.md", "Next:"), file("b.md", bytes(range(256)))),
    Mistake(RUN, 2, ("Task 1 is here and on line 1",), file("plan.md", "## Task 1\nA\n## Task 1\nB\n")),
    Mistake("run t.csv --agent scripted", 2, ("names no column `title`", "id,title"), file("t.csv", "a,b\n")),
    Mistake("run t.jsonl --agent scripted", 2, ("line 1 is not JSON",), file("t.jsonl", "{")),
    Mistake(
        "run tsks.csv --agent scripted", 2, ("Did you mean tasks.csv?",), file("tasks.csv", "title\nA\n")
    ),
    Mistake("run github:acme --agent scripted", 2, ("github:OWNER/REPO",)),
    Mistake("run github:a/b --agent scripted", 4, ("no token for GitHub", "gh auth login")),
    Mistake("run github.com/a/b --agent scripted", 4, ("no token for GitHub", "gh auth login")),
    Mistake("run git@github.com:a/b.git --agent scripted", 4, ("no token for GitHub", "gh auth login")),
    Mistake("run a/b#12 --agent scripted", 2, ("a/b#12 is no list of tasks", "segue run 'github:a/b#12'")),
    Mistake(f"{RUN} --source plnfile", 2, ("no source 'plnfile'", "'planfile'")),
    Mistake("run --agent scripted", 2, ("There are 2 sources", "segue run "), file("b.md", LOOSE)),
    Mistake(
        "run --agent scripted", 2, ("Looked for", "segue run plan.md"), lambda r: (r / "plan.md").unlink()
    ),
    Mistake("run", 2, ("no.md does not exist",), toml('agent = "scripted"\nsource = "no.md"\n')),
    Mistake("task list nope.md", 2, ("nope.md does not exist",)),
    Mistake("forecast", 2, ("No source was named", "plan.md")),
]
AGENTS = [
    Mistake("run plan.md", 5, ("No agent was chosen", "npm install", "segue rehearse plan.md")),
    Mistake("run plan.md --agent cladue", 2, ("no agent 'cladue'", "'claude'", "codex")),
    Mistake("run plan.md --agent", 2, ("--agent needs a value",)),
    Mistake("run plan.md --agent scripted:", 2, ("names no model", "NAME:MODEL")),
    Mistake("run plan.md --agent plna=claude", 2, ("'plna' is not a role", "'plan'")),
    Mistake("run plan.md --agent claude", 5, ("Claude Code (claude) was not found", "npm install")),
    Mistake("run plan.md --agent cursor-cloud", 4, ("CURSOR_API_KEY is not set", "https://cursor.com")),
    Mistake("run plan.md --agent command", 2, ("agents.command.argv", "nothing sets it", "segue.toml")),
    Mistake(
        "run plan.md",
        5,
        ("nosuch was not found",),
        toml('agent = "command"\n[agents.command]\nargv = ["nosuch"]'),
    ),
    Mistake("agent try cladue x", 2, ("'claude'",)),
    Mistake("agent schema cladue", 2, ("'claude'",)),
    Mistake(f"{RUN} --flow revieww", 2, ("no flow 'revieww'", "'review'")),
    Mistake(f"{RUN} --review rufff", 2, ("no reviewer 'rufff'", "'ruff'")),
    Mistake(f"{RUN} --review ruff", 5, ("ruff was not found", "Install it")),
    Mistake("run 001 --agent scripted --judge chekcs", 2, ("no judge 'chekcs'", "'checks'"), feature),
    Mistake("run 001 --agent scripted --judge checks", 2, ("there are no checks", "pytest -q"), feature),
    Mistake(
        "run 001 --agent scripted --judge llm", 4, ("OPENAI_API_KEY is not set", "--judge agent"), feature
    ),
    Mistake("run 001 --agent scripted --commit never", 2, ('commit = "never"', "Next:"), feature),
    Mistake("bench judge", 4, ("OPENAI_API_KEY is not set", "export")),
]
OPTIONS = [
    Mistake(f"{RUN} --max-tasks 2", 2, ("no option --max-tasks", "Without it: segue run plan.md")),
    Mistake(f"{RUN} --task 9", 2, ("no task '9'", "1, 2")),
    Mistake(f"{RUN} --from 9", 2, ("no task '9'",)),
    Mistake(f"{RUN} --story US1", 2, ("no story 'US1'", "It has none")),
    Mistake(f"{RUN} --phase 4", 2, ("no phase '4'",)),
    Mistake(f"{RUN} --until-checkpoint", 2, ("no checkpoint after task 1", "**Checkpoint**")),
    Mistake(f"{RUN} --jobs 0", 2, ("--jobs takes a whole number from 1 to 64, not '0'",)),
    Mistake(f"{RUN} --jobs many", 2, ("not 'many'",)),
    Mistake(f"{RUN} --approve", 2, ("--approve has no effect", "--dry-run")),
    Mistake(f"{RUN} --log-format text", 2, ("the setting log.format", "SEGUE_LOG__FORMAT=text segue run")),
    Mistake(f"{RUN} --no-approve", 2, ("--no-approve has no effect", "written down already")),
    Mistake(
        "run plan.md --agent cursor-cloud --allow-dirty",
        2,
        ("allow_dirty has no effect", "never touches your work tree"),
        hosted,
        env={"CURSOR_API_KEY": "key-of-nobody"},
    ),
    Mistake(f"{RUN} --allow-dirty --worktree", 2, ("allow_dirty", "no effect", "work tree of its own")),
    Mistake("run plan.md --agent scripted:one --model two", 2, ("model", "no effect", "names its own")),
    Mistake(f"{RUN} --dry-run --detach", 2, ("--detach has no effect: --dry-run launches nothing",)),
    Mistake(f"{RUN} --dry-run --no-approve", 2, ("--no-approve has no effect: --dry-run",)),
    Mistake(f"{RUN} --detach --verbose", 2, ("--verbose has no effect", "in the background")),
    Mistake(f"{RUN} --json --verbose", 2, ("--verbose has no effect: --json",)),
    Mistake(f"{RUN} --restart --plan-changed keep", 2, ("--plan-changed has no effect: --restart",)),
    Mistake("follow last --once --every 60", 2, ("--every has no effect",)),
    Mistake("mcp --port 9", 2, ("--port has no effect", "--http")),
    Mistake("serve --link --host ::1", 2, ("--host has no effect",)),
    Mistake(f"{RUN} --quiet --verbose", 2, ("exclude each other", "Leave one of them out")),
    Mistake(f"{RUN} --review none", 2, ("review.reviewer", "has no effect", "execute → check")),
    Mistake(f"{RUN} --judge agent,agent", 2, ("names a judge twice", "agent, agent")),
    Mistake(f"{RUN} --judge chekcs --dry-run", 2, ("no judge 'chekcs'", "'checks'")),
    Mistake(f"{RUN} --task-list 1", 2, ("--task-list has no effect", "Spec Kit features")),
    Mistake(f"{RUN} --detach --serve", 2, ("--serve has no effect", "`segue serve`")),
    Mistake(f"{RUN} --label x", 2, ("--label has no effect", "github:OWNER/REPO")),
    Mistake(f"{RUN} --base main", 2, ("has no effect", "your work tree", "leave it out")),
    Mistake(f"{RUN} --ignore-checklists", 2, ("--ignore-checklists has no effect", "Leave it out")),
    Mistake(f"{RUN} --pr", 2, ("no remote called origin", "git remote add origin")),
    Mistake(f"{RUN} --dryrun", 2, ("Did you mean --dry-run?",)),
    Mistake(f"{RUN} --isolation docker", 2, ("takes no 'docker'", "Did you mean container?")),
    Mistake(f"{RUN} --isolation container", 5, ("no container runtime", "[sandbox]")),
    Mistake(f"{RUN} extra", 2, ("has no place for `extra`",)),
    Mistake(f"{RUN} --config segue.tom", 2, ("does not exist", "segue.toml?"), toml("")),
    Mistake(f"{RUN} --log-file no/x.log", 2, ("no/x.log cannot be written", "--log-file")),
    Mistake(f"{RUN} --summary github", 2, ("GITHUB_STEP_SUMMARY", "--summary summary.md")),
    Mistake(f"{RUN} --summary no/s.md", 2, ("folder", "does not exist", "--summary")),
]
REPOSITORIES = [
    Mistake(RUN, 2, ("uncommitted changes: loose", "--allow-dirty"), lambda r: (r / "loose").touch()),
    Mistake(RUN, 2, ("not a git repository", "git init"), lambda r: shutil.rmtree(r / ".git")),
    Mistake(RUN, 2, ("uncommitted changes", "first commit", "git commit"), without_commits),
    Mistake(f"{RUN} --worktree", 2, ("no commit yet", "Make a first commit"), without_commits),
    Mistake(f"{RUN} -C nowhere", 2, ("nowhere is not a folder", "--repo")),
    Mistake(f"{RUN} -C plan.md", 2, ("is a file",)),
    Mistake("status -C nowhere", 2, ("nowhere does not exist", "--repo")),
    Mistake("init -C nowhere", 2, ("nowhere does not exist", "--repo")),
    Mistake("init", 2, ("already exists", "It was not changed"), toml("")),
    Mistake(RUN, 2, ("needs your trust", "segue trust"), toml('checks = ["true"]\n'), {"SEGUE_TRUST": ""}),
    Mistake(
        "trust",
        2,
        ("there is no terminal", "segue trust --yes"),
        toml('checks = ["true"]\n'),
        {"SEGUE_TRUST": ""},
    ),
    Mistake("trust --yes --show", 2, ("exclude each other",)),
]
SETTINGS = [
    Mistake("run plan.md", 2, ("no agent 'cladue'", "segue.toml"), toml('agent = "cladue"\n')),
    Mistake("run plan.md", 2, ("agnet", "did you mean agent?", "segue.toml"), toml('agnet = "claude"\n')),
    Mistake("run plan.md", 2, ("line 1", "needs quotes"), toml("agent = claude\n")),
    Mistake("run plan.md", 2, ('"claude:opus"',), toml("agent = 3\n")),
    Mistake(RUN, 2, ('"pytest -q"', "segue.toml"), toml("checks = [3]\n")),
    Mistake(RUN, 5, ("nopytest was not found", "change `checks`"), toml('checks = ["nopytest -q"]\n')),
    Mistake(RUN, 2, ("is not closed",), toml('checks = ["pytest \'-q"]\n')),
    Mistake(RUN, 2, ("needs a shell",), toml('checks = ["npm ci && npm test"]\n')),
    Mistake(RUN, 2, ("whole number from 1 to 64", '"four"'), toml('jobs = "four"\n')),
    Mistake(RUN, 2, ("from 1 to 64, got 100",), toml("jobs = 100\n")),
    Mistake(RUN, 2, ('"task"', '"always"'), toml('commit = "always"\n')),
    Mistake(RUN, 2, ("agents.cladue", "agents.claude?"), toml("[agents.cladue]\nmax_turns = 1\n")),
    Mistake(
        RUN,
        2,
        ("agents.claude.max_turn", "agents.claude.max_turns?"),
        toml("[agents.claude]\nmax_turn = 1\n"),
    ),
    Mistake(RUN, 2, ("limit", "limits?"), toml("[limit]\nattempts = 3\n")),
    Mistake(RUN, 2, ("limits.attempt", "limits.attempts?"), toml("[limits]\nattempt = 3\n")),
    Mistake(RUN, 2, ("at least 1, got 0",), toml("[limits]\nattempts = 0\n")),
    Mistake(RUN, 2, ("a number above 0", '"1h"'), toml('[limits]\nphase_timeout = "1h"\n')),
    Mistake(RUN, 2, ("expected a table, got 3",), toml("limits = 3\n")),
    Mistake(RUN, 2, ("no reviewer 'rufff'",), toml('[review]\nreviewer = "rufff"\n')),
    Mistake(RUN, 2, ('"checked"', '"proven"'), toml('require = "proven"\n')),
    Mistake(RUN, 2, ("cannot be reached", "pytest -q"), toml('require = "checked"\n')),
    Mistake(RUN, 2, ('"docs"', '"doc"'), toml('[kinds]\n1 = "doc"\n')),
    Mistake(RUN, 2, ("'exceute'", "'execute'"), toml('[flows.mine]\nphases = ["exceute"]\n')),
    Mistake(RUN, 2, ("flows.mine.phases", "is required"), toml("[flows.mine]\n")),
    Mistake(RUN, 2, ("no.toml does not exist",), toml('[agents.scripted]\nscript = "no.toml"\n')),
    Mistake(RUN, 2, ("is not UTF-8", "line 1"), lambda r: (r / "segue.toml").write_bytes(b'model = "\xe9"')),
    Mistake(RUN, 2, ("is a folder", "Rename it"), lambda r: (r / "segue.toml").mkdir()),
    Mistake("doctor", 2, ("did you mean agent?",), toml('agnet = "claude"\n')),
]
VARIABLES = [
    Mistake(RUN, 2, ("SEGUE_LIMIT__ATTEMPTS", "SEGUE_LIMITS__ATTEMPTS?"), env={"SEGUE_LIMIT__ATTEMPTS": "3"}),
    Mistake(RUN, 2, ("SEGUE_AGNET", "SEGUE_AGENT?"), env={"SEGUE_AGNET": "claude"}),
    Mistake(RUN, 2, ("whole number", "SEGUE_JOBS"), env={"SEGUE_JOBS": "many"}),
    Mistake(RUN, 2, ("SEGUE_CHECKS", '["pytest -q"]'), env={"SEGUE_CHECKS": "[pytest"}),
    Mistake(RUN, 2, ("SEGUE_SIM_LOGGED_IN?",), env={"SEGUE_SIM_LOGGED": "1"}),
    Mistake(RUN, 2, ("agents.claude?", "SEGUE_AGENTS__CLADUE"), env={"SEGUE_AGENTS__CLADUE__MAX_TURNS": "3"}),
    Mistake(RUN, 2, ("no.toml does not exist",), env={"SEGUE_CONFIG": "no.toml"}),
    Mistake(RUN, 2, ("SEGUE_TRIAL", "Unset it"), env={"SEGUE_TRIAL": "x"}),
]
RUNS = [
    Mistake("status nope", 2, ("There is no run in", "segue status")),
    Mistake("status nope", 2, ("no run 'nope'", "segue status"), done),
    Mistake("status last", 2, ("There is no run in", "segue run")),
    Mistake("status last --kind plan", 2, ("--kind has no effect: one run is shown",)),
    Mistake("status last -n 3", 2, ("--limit has no effect: one run is shown",)),
    Mistake("report run last --since 7d", 2, ("--since has no effect: the report is about one run",), done),
    Mistake("report gaps --json --limit 3", 2, ("--limit has no effect: only tables in the terminal",), done),
    Mistake("status -n 0", 2, ("at least 1, not '0'",)),
    Mistake("logs", 2, ("There is no run in", "segue run")),
    Mistake("logs last --task 9", 2, ("no task '9' in run", "segue status"), done),
    Mistake("proof last 9", 2, ("no task '9' in run", "segue status"), done),
    Mistake("proof last 1,2", 2, ("no task '1,2'", "segue proof last 1"), done),
    Mistake("status 9,1", 2, ("no run '9,1'", "segue status 1"), done),
    Mistake("logs 1..2", 2, ("no run '1..2'", "segue logs 1"), done),
    Mistake("stop 1", 2, ("A run is stopped, not a task", "Type: segue stop"), done),
    Mistake("logs task 1", 2, ("the option --task", "Type: segue logs --task 1"), done),
    Mistake("resume plan.md", 2, ("a list of tasks", "Type: segue run plan.md"), done),
    Mistake("task accept 1,2", 2, ("1,2 are several", "segue task accept 1 && segue task accept 2"), done),
    Mistake("resume 1", 2, ("1 is a task of run", "segue run --task 1"), done),
    Mistake("resume", 2, ("There is no run in",)),
    Mistake("resume talk --summary x.md", 2, ("--summary has no effect", "conversation"), stored),
    Mistake("resume far --summary x.md", 2, ("--summary has no effect", "worker of the fleet"), stored),
    Mistake("resume far --verbose", 2, ("--verbose has no effect", "worker of the fleet"), stored),
    Mistake("stop nope", 2, ("no run 'nope'",)),
    Mistake("follow last", 2, ("no pull request to follow", "--pr"), done),
    Mistake("task accept", 2, ("KEY is missing",)),
    Mistake("task accept 9", 2, ("no task '9'", "segue task list"), done),
    Mistake("task accept 1", 2, ("already done", "Nothing was changed"), done),
    Mistake("task skip 2", 2, ("--reason is missing", "segue task skip 2 --reason WHY"), done),
    Mistake("check", 2, ("No checks are configured", "segue check -- pytest -q", "segue.toml"), changed),
    Mistake("check --since nowhere", 2, ("There is no commit 'nowhere' here", "git fetch origin")),
    Mistake("check --since -x", 2, ("There is no commit '-x' here",)),
    Mistake("check --", 2, ("A command must follow `--`",)),
    Mistake("check rls -- true", 2, ("`rls` takes no command after --",)),
    Mistake("check -- no-such-program", 5, ("no-such-program was not found", "Install"), changed),
    Mistake("check --require independent", 2, ("checked, tested",)),
    Mistake("replay", 2, ("nothing to decide differently", "--judge")),
    Mistake("replay last --judge nope", 2, ("no judge 'nope'", "Known judges"), done),
    Mistake("report --since yesterday", 2, ("'yesterday' is not a date", "7d")),
    Mistake("report --kind pln", 2, ("takes no 'pln'", "Did you mean plan?")),
    Mistake("gc --older-than x", 2, ("30d",)),
]
DATA = [
    Mistake(
        "status",
        1,
        ("is not a Segue database", "--database-url"),
        lambda r: _database(r).write_text("no" * 999),
    ),
    Mistake("status", 1, ("is a folder", "--database-url"), lambda r: _database(r).mkdir()),
    Mistake("status", 1, ("has version 999", "Update Segue"), from_the_future),
    Mistake(f"{RUN} --database-url mysql://x/y", 2, ("neither a Postgres address", "postgresql://user")),
    Mistake("db push --to mysql://x/y", 2, ("is not Postgres", "postgresql://user"), done),
    Mistake("db export", 2, ("do not fit into one stream", "-o dataset")),
    Mistake("db export runz", 2, ("TABLE takes no 'runz'", "segue db export runs")),
    Mistake("db export runs -o no/x.csv", 2, ("cannot be written", "Name another place"), done),
    Mistake("db query", 2, ("syntax error", "segue db shell"), done, words=("db", "query", "selec 1")),
    Mistake(
        "db query", 2, ("no such column: nope",), done, words=("db", "query", "select nope from segue_runs")
    ),
    Mistake("experiment x.toml", 2, ("x.toml does not exist", "segue help")),
    Mistake("experiment x.toml", 2, ("prompts", "is required"), file("x.toml", "")),
    Mistake("experiment x.toml", 2, ("x.toml cannot be read",), file("x.toml", "a = [")),
    Mistake(
        "experiment x.toml",
        2,
        ("no agent 'cladue'",),
        file("x.toml", 'agents = ["cladue"]\nprompts = ["a b"]'),
    ),
]
SERVICES = [
    Mistake("serve --port 99999", 2, ("from 0 to 65535, not '99999'",)),
    Mistake("serve --port x", 2, ("not 'x'", "segue serve --port 8787")),
    Mistake("serve --host 0.0.0.0", 2, ("every network of this machine", "ssh -L", "--host ADDRESS")),
    Mistake("serve --host ::", 2, ("cannot be served on ::",)),
    Mistake("proxy --port 4100 key", 2, ("--port has no effect", "nothing is served")),
    Mistake("notify test", 2, ("No notifier is configured", "segue help")),
    Mistake("submit plan.md --agent scripted", 2, ("shares a Postgres database", "SEGUE_DATABASE_URL")),
    Mistake("submit plan.md --at tomorrow", 2, ("'tomorrow' is not a time", "03:00")),
    Mistake("worker", 2, ("shares a Postgres database",)),
    Mistake("fetch", 2, ("RUN is missing", "segue fetch RUN")),
    Mistake("schedule add nightly", 2, ("CRON is missing", "segue schedule add nightly CRON SOURCE")),
]
MISTAKES = [
    *(*COMMANDS, *SOURCES, *AGENTS, *OPTIONS, *REPOSITORIES, *SETTINGS, *VARIABLES, *RUNS, *DATA, *SERVICES),
]
