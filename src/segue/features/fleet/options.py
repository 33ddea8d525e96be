"""The settings of a machine that works for a fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from segue.domain.options import NonNegativeFloat, Options

if TYPE_CHECKING:
    from segue.runtime.app import App


class WorkerSettings(Options, frozen=True):
    """What this machine does for others when `segue worker` runs on it: see `docs/guides/fleet.md`."""

    jobs: Annotated[int, Meta(ge=1, le=256)] = 1
    """How many runs to work on at once."""
    tags: tuple[str, ...] = ()
    """What this machine has beside what is found out, such as `big`; see `--needs`."""
    allow_repos: tuple[str, ...] = ()
    """The repositories to work on (globs of their URLs); their own segue.toml is trusted. None if unset."""
    allow_agents: tuple[str, ...] | None = None
    """The agents that may be launched here; every one that is ready if unset."""
    allow_settings: tuple[str, ...] = ()
    """Powerful settings that who submits may give, such as `checks`; none if unset."""
    hold: NonNegativeFloat = 120
    """Seconds for which runs are kept for this machine when its worker gets SIGTERM: their agents
    continue, and the worker that starts next adopts them. 0: they go back to the queue at once."""
    cache_gb: NonNegativeFloat = 10
    """Gigabytes of clones to keep, so that they need not be fetched again."""


def worker_settings(app: App) -> WorkerSettings:
    """Return the table `[worker]`."""
    return app.loaded.settings.part("worker", WorkerSettings)
