"""What a command line starts: the cloud simulator with its repositories and its script."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from segue.domain.errors import UsageError
from segue.sim.cloud.app import cloud_app
from segue.sim.cloud.script import Script
from segue.sim.http.script import load_script
from segue.system.http.server import run_server


def run_cloud(port: int, repos: Sequence[str], script: Path | None, tell: Callable[[str], None]) -> None:
    """Serve until Ctrl-C; `tell` gets the line that names the address."""
    table = dict(_pair(repo) for repo in repos)
    played = load_script(script, Script) if script else Script()
    for url, bare in {**played.repos, **table}.items():
        if not (bare / "objects").is_dir():
            raise UsageError(
                f"{url}: {bare} is no bare git repository.", hint=f"Make one with: git init --bare {bare}"
            )
    run_server(cloud_app(played, table), port, lambda url: tell(f"listening on {url}"))


def announce(line: str) -> None:
    """Say a line at once, also into a pipe."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _pair(repo: str) -> tuple[str, Path]:
    url, found, path = repo.partition("=")
    if not found or not url or not path:
        raise UsageError(
            f"--repo {repo}: URL=PATH is expected", hint="--repo https://github.com/me/app=app.git"
        )
    return url, Path(path).absolute()
