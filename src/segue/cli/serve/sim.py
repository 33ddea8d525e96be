"""`segue sim`: simulate vendors' tools to rehearse a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from segue.cli.main import OpenGroup
from segue.cli.options import FILE, FOLDER, PORT, options
from segue.cli.terminal.output import Printer


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
    from segue.domain.errors import UsageError
    from segue.sim.launchers import PROGRAMS, write_launchers
    from segue.system.reach import tree_around

    if tree := tree_around(folder if folder.is_dir() else folder.absolute().parent):
        raise UsageError(
            f"{folder} is in the work tree {tree}, where agents can write: the real tools would come first.",
            kept="Nothing was written.",
            hint="Choose a folder outside: segue sim bin ~/sims",
        )
    foreign = [folder / name for name in PROGRAMS if _is_foreign(folder / name)]
    if foreign:
        raise UsageError(
            f"{foreign[0]} exists and is not a simulator.",
            kept="It was not changed.",
            hint="Choose another folder.",
        )
    for path in write_launchers(folder):
        output.text(str(path))
    output.note(f"Next: PATH={folder.absolute()}:$PATH segue run plan.md --agent cursor")


_PORT = click.option("--port", type=PORT, default=0, help="The port (default: a free one).")
_SCRIPT = click.option("--script", type=FILE, help="What it answers, as TOML or JSON.")
_SERVICES = {
    "llm": """Simulate language models with scripted answers on loopback until Ctrl-C.

Supports OpenAI's, Anthropic's and Google's APIs. See `segue help simulators`.

\b
Examples:
  segue sim llm --port 8099 --script answers.toml
""",
    "ntfy": """Simulate an ntfy server on loopback until Ctrl-C.

Name its address as `url` in `[notify.ntfy]`. See `segue help simulators`.

\b
Examples:
  segue sim ntfy --port 8097
""",
    "slack": """Simulate a channel of Slack, with buttons, on loopback until Ctrl-C.

Name its address with `/services/T0/B0/x` as `url` in `[notify.slack]`. See `segue help simulators`.

\b
Examples:
  segue sim slack --port 8096 --script slack.toml
""",
    "search": """Simulate web search services with scripted results on loopback until Ctrl-C.

Supports the APIs of SearXNG, Brave and Tavily. See `segue help searching`.

\b
Examples:
  segue sim search --port 8098 --script results.toml
""",
}
_HOSTS = {
    "cursor": """Simulate Cursor's cloud agents on loopback until Ctrl-C.

The agents push real commits to the bare repositories. See `segue help simulators`.

\b
Examples:
  segue sim cursor --repo https://github.com/me/app=/tmp/app.git
""",
    "gitlab": """Simulate GitLab's API for merge requests on loopback until Ctrl-C.

Name its address with `/api/v4` as `api` in `[deliveries.pr]`. See `segue help simulators`.

\b
Examples:
  segue sim gitlab --repo me/app=/tmp/app.git
""",
}


def _repos(what: str, how: str) -> Callable[[Any], Any]:
    return click.option(
        "--repo", "repos", multiple=True, metavar=f"{what}=PATH", help=f"A bare repository and its {how}."
    )


def _add_service(name: str, text: str) -> None:
    """Add the command that simulates a service."""

    @sim.command(name, help=text)
    @_PORT
    @_SCRIPT
    @options()
    def command(port: int, script: Path | None, output: Printer) -> None:
        from segue.sim.services import APPS, run_service

        run_service(APPS[name], port, script, output.text)


def host_command(name: str, text: str, app: tuple[str, str] | None = None) -> click.Command:
    """Return the command that simulates a service with repositories; `app` is that of a part: see `APPS`."""

    @click.command(name, help=text)
    @_PORT
    @(_repos("NAME", "GROUP/NAME") if name == "gitlab" else _repos("URL", "URL"))
    @_SCRIPT
    @options()
    def command(port: int, repos: tuple[str, ...], script: Path | None, output: Printer) -> None:
        from segue.sim.services import APPS, run_service

        run_service(app or APPS[name], port, script, output.text, repos)

    return command


for _name, _text in _SERVICES.items():
    _add_service(_name, _text)
for _name, _text in _HOSTS.items():
    sim.add_command(host_command(_name, _text))


@sim.command("github")
@_PORT
@_repos("NAME", "OWNER/NAME")
@click.option("--socket", "unix", type=FILE, help="A Unix socket to listen on as well, for gh.")
@_SCRIPT
@options()
def github(
    port: int, repos: tuple[str, ...], unix: Path | None, script: Path | None, output: Printer
) -> None:
    """Simulate GitHub's REST and GraphQL APIs on loopback until Ctrl-C.

    Point GITHUB_API_URL at it; gh reaches it with: gh config set http_unix_socket PATH.
    See `segue help simulators`.

    \b
    Examples:
      segue sim github --repo me/app=/tmp/app.git --script issues.toml
      segue sim github --socket /tmp/gh.sock
    """
    from segue.sim.services import APPS, run_service

    run_service(APPS["github"], port, script, output.text, repos, unix)


def _is_foreign(path: Path) -> bool:
    return path.is_symlink() or (
        path.exists() and b"Written by `segue sim bin`" not in path.read_bytes()[:600]
    )
