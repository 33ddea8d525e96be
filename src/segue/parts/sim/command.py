"""`segue sim`: simulate vendors' tools to rehearse a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from segue.cli.main import OpenGroup
from segue.cli.options import FILE, FOLDER, PORT, options
from segue.cli.terminal.output import Printer
from segue.domain.errors import UsageError


@click.group(cls=OpenGroup)
def sim() -> None:
    """Simulate vendors' tools to rehearse a run.

    \b
    Examples:
      segue sim bin ~/sims
      segue sim llm --port 8099 --script answers.toml
    """


@sim.command("bin")
@click.argument("folder", metavar="DIR", type=FOLDER)
@options()
def bin_(folder: Path, output: Printer) -> None:
    """Write simulators of the Cursor CLI, stet, Gemini, Copilot, OpenCode, Qwen and Vibe to DIR.

    Put DIR first on the PATH to use them instead of the real tools. See `segue help rehearsing` and
    `segue help simulators` for what they do and how to make them fail.

    \b
    Examples:
      segue sim bin ~/sims
      PATH=~/sims:$PATH segue run plan.md --agent cursor
    """
    from segue.parts.sim.launchers import list_programs, write_launchers
    from segue.system.reach import tree_around

    if tree := tree_around(folder if folder.is_dir() else folder.absolute().parent):
        raise UsageError(
            f"{folder} is in the work tree {tree}, where agents can write: the real tools would come first.",
            kept="Nothing was written.",
            hint="Choose a folder outside: segue sim bin ~/sims",
        )
    foreign = [folder / name for name in list_programs() if _is_foreign(folder / name)]
    if foreign:
        raise UsageError(
            f"{foreign[0]} exists and is not a simulator.",
            kept="It was not changed.",
            hint="Choose another folder.",
        )
    for path in write_launchers(folder):
        output.text(str(path))
    output.note(f"Next: PATH={folder.absolute()}:$PATH segue run plan.md --agent cursor")


def _is_foreign(path: Path) -> bool:
    return path.is_symlink() or (
        path.exists() and b"Written by `segue sim bin`" not in path.read_bytes()[:600]
    )


def service_command(
    name: str, text: str, build: str, script: str, repos: tuple[str, str] | None = None, *, unix: bool = False
) -> click.Command:
    """Return the command that serves a simulator until Ctrl-C.

    `build` and `script` name the function that makes its app and the type of its script; `repos` is how a
    bare repository is named, and what that is; with `unix` it may listen on a Unix socket as well.
    """

    @click.command(name, help=text)
    @options()
    def command(
        port: int,
        script_file: Path | None,
        output: Printer,
        named: tuple[str, ...] = (),
        socket: Path | None = None,
    ) -> None:
        from segue.domain.installed import import_name
        from segue.sim.script import load_script
        from segue.system.http.server import run_server

        kind, make = import_name(script), import_name(build)
        loaded = load_script(script_file, kind) if script_file else kind()
        if repos is None:
            app = make(loaded)
        else:
            table = dict(_split_repo(one) for one in named)
            _check_bare({**loaded.bares, **table})
            app = make(loaded, table)
        run_server(app, port, lambda url: output.text(f"listening on {url}"), socket)

    choices = [
        click.Option(["--port"], type=PORT, default=0, help="The port (default: a free one)."),
        click.Option(["--script", "script_file"], type=FILE, help="What it answers, as TOML or JSON."),
    ]
    if repos is not None:
        what, how = repos
        help_ = f"A bare repository and its {how}."
        choices.insert(
            1, click.Option(["--repo", "named"], multiple=True, metavar=f"{what}=PATH", help=help_)
        )
    if unix:
        help_ = "A Unix socket to listen on as well, for gh."
        choices.insert(2, click.Option(["--socket"], type=FILE, help=help_))
    command.params[:0] = choices
    return command


def _check_bare(repos: Mapping[str, Path]) -> None:
    for url, bare in repos.items():
        if not (bare / "objects").is_dir():
            raise UsageError(
                f"{url}: {bare} is not a bare git repository.",
                hint=f"Create one with: git init --bare {bare}",
            )


def _split_repo(repo: str) -> tuple[str, Path]:
    url, found, path = repo.partition("=")
    if not found or not url or not path:
        raise UsageError(
            f"--repo {repo} is not of the form URL=PATH.", hint="--repo https://github.com/me/app=app.git"
        )
    return url, Path(path).absolute()


BY_URL = ("URL", "URL")
"""How repositories are named that agents in the cloud work on."""
_OWN: Sequence[click.Command] = (
    service_command(
        "llm",
        """Simulate language models with scripted answers on loopback until Ctrl-C.

Supports OpenAI's, Anthropic's and Google's APIs. See `segue help simulators`.

\b
Examples:
  segue sim llm --port 8099 --script answers.toml
""",
        "segue.sim.llm.app:llm_app",
        "segue.sim.llm.script:LlmScript",
    ),
    service_command(
        "cursor",
        """Simulate Cursor's cloud agents on loopback until Ctrl-C.

The agents push real commits to the bare repositories. See `segue help simulators`.

\b
Examples:
  segue sim cursor --repo https://github.com/me/app=/tmp/app.git
""",
        "segue.parts.sim.cloud.app:cloud_app",
        "segue.parts.sim.cloud.script:CloudScript",
        BY_URL,
    ),
    service_command(
        "github",
        """Simulate GitHub's REST and GraphQL APIs on loopback until Ctrl-C.

Point GITHUB_API_URL at it; gh reaches it with: gh config set http_unix_socket PATH.
See `segue help simulators`.

\b
Examples:
  segue sim github --repo me/app=/tmp/app.git --script issues.toml
  segue sim github --socket /tmp/gh.sock
""",
        "segue.parts.sim.github.app:github_app",
        "segue.parts.sim.github.script:GithubScript",
        ("NAME", "OWNER/NAME"),
        unix=True,
    ),
)
for _command in _OWN:
    sim.add_command(_command)
