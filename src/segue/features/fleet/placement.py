"""What a worker has, and which runs it can therefore take."""

from __future__ import annotations

import platform
from collections.abc import Collection, Iterable
from pathlib import Path

from msgspec import Struct

from segue.config.settings import Settings
from segue.domain.errors import UsageError
from segue.domain.job import read_chain
from segue.domain.run import RunSpec
from segue.features.fleet.git.addresses import canonical_url
from segue.features.fleet.options import WorkerSettings, worker_settings
from segue.features.fleet.queue import ANY, HAS, QueueKey, is_allowed
from segue.runtime.app import App
from segue.runtime.doctor import agent_reports
from segue.runtime.registry import names
from segue.system.programs import find_inside

_SYSTEMS = {"Darwin": "macos", "Linux": "linux", "Windows": "windows"}


class Equipment(Struct, frozen=True):
    """What a worker has."""

    tags: frozenset[str]
    agents: frozenset[str]
    """The agents that are ready to work here."""
    repos: tuple[str, ...]
    """Patterns of the repositories that are allowed."""

    @property
    def shown(self) -> list[str]:
        """Everything, in words for people."""
        return sorted({*self.tags, *(f"{HAS}{name}" for name in self.agents)})

    def meets(self, need: str) -> bool:
        """Return whether a need is met: a tag, or `has:NAME`, an agent that is ready or a program.

        Names that are separated by `|` are alternatives.
        """
        if not need.startswith(HAS):
            return need in self.tags
        return any(name in self.agents or find_inside(name) for name in need.removeprefix(HAS).split("|"))

    def can_take(self, key: QueueKey, only: Collection[str] = ()) -> bool:
        """Return whether this worker can take the runs of a queue; `only` are tags of which one is needed."""
        wanted = {need for need in key.needs if not need.startswith(HAS)} or {ANY}
        chosen = not only or not wanted.isdisjoint(only)
        return chosen and is_allowed(key.repo, self.repos) and all(map(self.meets, key.needs))


def examine(app: App, more: Collection[str] = ()) -> Equipment:
    """Find out what this machine has."""
    worker = worker_settings(app)
    tags = {_SYSTEMS.get(platform.system(), platform.system().lower()), f"arch:{platform.machine()}"}
    if find_inside("nvidia-smi") or Path("/dev/nvidia0").exists():
        tags.add("gpu")
    ready = {report.name for report in agent_reports(app) if report.ready}
    allowed = ready if worker.allow_agents is None else ready & set(worker.allow_agents)
    return Equipment(frozenset({*tags, *worker.tags, *more}), frozenset(allowed), tuple(worker.allow_repos))


def needs_for(settings: Settings, given: Iterable[str]) -> tuple[str, ...]:
    """Return what a run needs: what was asked for, and one of its agents.

    An agent that the project itself describes may be ready anywhere.
    """
    needs = set(given)
    text = settings.agent or settings.roles.execute
    wanted = [choice.agent for choice in read_chain(text)] if text else []
    if wanted and all(name in names("agents") and name not in settings.agents for name in wanted):
        needs.add(HAS + "|".join(dict.fromkeys(wanted)))
    for need in needs:
        if not need or "+" in need or any(sign.isspace() for sign in need):
            raise UsageError(f"{need!r} is not a tag.", hint="Give words such as gpu, macos or has:docker")
    return tuple(sorted(needs))


def refuse_foreign(worker: WorkerSettings, spec: RunSpec, powerful: Collection[str]) -> None:
    """Refuse what the owner of this worker has not allowed: repositories, and powerful settings."""
    assert spec.origin is not None
    url = canonical_url(spec.origin.url)
    if not is_allowed(url, worker.allow_repos):
        raise UsageError(
            f"This worker may not work on {url}.",
            kept="The run waits for another worker.",
            hint=f'Its owner can allow that: [worker] allow_repos = ["{url}"]',
        )
    refused = sorted(set(powerful) - set(worker.allow_settings))
    if refused:
        raise UsageError(
            f"This worker takes no powerful settings from who submits: {', '.join(refused)}.",
            kept="The run waits for another worker.",
            hint="Put them into the repository's segue.toml, or let its owner set [worker] allow_settings",
        )
