"""The simulated services as commands: each reads its script and serves until Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from starlette.applications import Starlette

from segue.domain.errors import UsageError
from segue.sim.script import load_script
from segue.system.http.server import run_server


def run_cloud(port: int, repos: Sequence[str], script: Path | None, report: Callable[[str], None]) -> None:
    """Serve Cursor's cloud agents; `report` gets the line with the address."""
    from segue.sim.cloud.app import cloud_app
    from segue.sim.cloud.script import CloudScript

    table = dict(_split_repo(repo) for repo in repos)
    loaded = load_script(script, CloudScript) if script else CloudScript()
    for url, bare in {**loaded.repos, **table}.items():
        if not (bare / "objects").is_dir():
            raise UsageError(
                f"{url}: {bare} is not a bare git repository.",
                hint=f"Create one with: git init --bare {bare}",
            )
    _serve(cloud_app(loaded, table), port, report)


def run_llm(port: int, script: Path | None, report: Callable[[str], None]) -> None:
    """Serve language models; `report` gets the line with the address."""
    from segue.sim.llm.app import llm_app
    from segue.sim.llm.script import LlmScript

    _serve(llm_app(load_script(script, LlmScript) if script else None), port, report)


def run_search(port: int, script: Path | None, report: Callable[[str], None]) -> None:
    """Serve web searches; `report` gets the line with the address."""
    from segue.sim.search.app import search_app
    from segue.sim.search.script import SearchScript

    _serve(search_app(load_script(script, SearchScript) if script else None), port, report)


def _serve(app: Starlette, port: int, report: Callable[[str], None]) -> None:
    run_server(app, port, lambda url: report(f"listening on {url}"))


def _split_repo(repo: str) -> tuple[str, Path]:
    url, found, path = repo.partition("=")
    if not found or not url or not path:
        raise UsageError(
            f"--repo {repo} is not of the form URL=PATH.", hint="--repo https://github.com/me/app=app.git"
        )
    return url, Path(path).absolute()
