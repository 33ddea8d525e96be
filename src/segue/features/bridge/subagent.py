"""Runs the subagent that a SUBAGENT command asks for, in the cloud or in a fresh clone on this machine.

It may work only in repositories of the allow-list; what it did in a clone is pushed back as a branch.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from segue.agents.cloud.repository import canonical_address
from segue.domain.errors import SegueError, ToolMissing, UsageError, WorkspaceError
from segue.domain.job import Mode
from segue.domain.outcome import Outcome
from segue.domain.results import LaunchOutput, StepResult
from segue.domain.run import StepState
from segue.domain.text import keep_end
from segue.features.bridge.commands import Subagent
from segue.features.bridge.completion import report_completion
from segue.features.bridge.context import ConversationContext, launch_agent
from segue.features.bridge.options import AllowedRepo
from segue.features.bridge.prompts import subagent_prompt
from segue.flow.agents import ChosenAgent, OverBudget
from segue.flow.launch import LaunchRequest
from segue.ports import Agent
from segue.system.files import private_folder
from segue.system.git.repository import Repository
from segue.system.git.scratch import clone_whole


class Clone(Struct, frozen=True):
    """A clone of one of the user's folders, in which one subagent works on one branch."""

    source: Path
    folder: Path
    branch: str
    base: str | None = None
    """The branch of the source to start from; its current one if unset."""

    async def prepare(self) -> None:
        """Create the clone, unless a killed process has already created it."""
        if (self.folder / ".git").exists():
            return
        half = private_folder(self.folder.parent) / f"{self.folder.name}.half"
        shutil.rmtree(half, ignore_errors=True)
        options = [f"--branch={self.base}"] if self.base else []
        await (await clone_whole(self.source, half, *options)).git(
            "switch", "--quiet", "--create", self.branch
        )
        half.replace(self.folder)

    async def push(self, message: str) -> str | None:
        """Commit the work and push it to the source; return the branch, or None if nothing was done."""
        repo = await Repository.open(self.folder)
        await repo.commit(message)
        commits = await repo.git("rev-list", "--count", "HEAD", "--not", "--remotes=origin")
        if commits.strip() == "0" and not await self._is_pushed(repo):
            return None
        await repo.git("push", "--quiet", "origin", f"HEAD:refs/heads/{self.branch}")
        return self.branch

    def remove(self) -> None:
        """Delete the clone, once the work is pushed and recorded."""
        shutil.rmtree(self.folder, ignore_errors=True)

    async def _is_pushed(self, repo: Repository) -> bool:
        """Return whether a killed process had already pushed the branch."""
        return bool((await repo.git("ls-remote", "origin", f"refs/heads/{self.branch}")).strip())


class RepoTarget(Struct, frozen=True):
    """An allowed repository: its address for cloud agents, its folder for agents on this machine."""

    repository: str | None
    folder: Path | None

    @property
    def name(self) -> str:
        """Its name in messages and in the store."""
        return self.repository or str(self.folder)


def find_target(repo: str, allowed: Sequence[str | AllowedRepo]) -> RepoTarget:
    """Return the repository that `repo` names; raise ValueError if it is not allowed."""
    if Path(repo).is_absolute() or repo.startswith("~"):
        return _find_folder(repo, allowed)
    address = canonical_address(repo)
    matches = [entry for entry in allowed if _matches(address, _pattern(entry).lower())]
    if not matches:
        raise ValueError(f"{address} is not on the allow-list (bridge.allow_repos)")
    exact = [_pattern(entry) for entry in matches if not _pattern(entry).endswith("/*")]
    folders = [entry.folder for entry in matches if isinstance(entry, AllowedRepo)]
    # Some services are case-sensitive: use the user's spelling.
    return RepoTarget(exact[0] if exact else address, folders[0] if folders else None)


def _find_folder(repo: str, allowed: Sequence[str | AllowedRepo]) -> RepoTarget:
    """Find a folder, links resolved; what is below an allowed folder is not allowed."""
    if "\0" in repo:
        raise ValueError("a path cannot contain a null character")
    try:
        wanted = Path(repo).expanduser().resolve()
    except RuntimeError:
        raise ValueError(f"there is no home folder for {repo.partition('/')[0]}") from None
    for entry in allowed:
        folder = entry.folder if isinstance(entry, AllowedRepo) else Path(entry)
        if folder.is_absolute() and folder.resolve() == wanted:
            hosted = entry.repo if isinstance(entry, AllowedRepo) and not entry.repo.endswith("/*") else None
            return RepoTarget(hosted, wanted)
    raise ValueError(f"{wanted} is not on the allow-list (bridge.allow_repos)")


def _pattern(entry: str | AllowedRepo) -> str:
    return entry.repo if isinstance(entry, AllowedRepo) else entry


def _matches(address: str, pattern: str) -> bool:
    """Compare without case, as hosts do; a `*` stands for one name."""
    if pattern.endswith("/*"):
        owner, _, name = address.lower().rpartition("/")
        return owner == pattern[:-2] and bool(name)
    return address.lower() == pattern


KEPT_TEXT = 16 * 1024
"""Characters of what a subagent says that the agent reads; its branch has the work."""


async def run_subagent(context: ConversationContext, key: str, command: Subagent) -> dict[str, Any]:
    """Run a subagent and report its end; return what the agent is shown, refusals included."""
    try:
        target, agent = _choose(context, key, command)
    except (ValueError, SegueError) as error:
        name = command.repo.rpartition("@")[2]  # a password may stand before the @
        return {"status": "refused", "repo": name, "reason": str(error)}
    try:
        async with context.journal.slot("bridge", context.settings.concurrency):
            result = await _launch(context, key, command, target, agent)
    except (OverBudget, WorkspaceError, ToolMissing) as error:
        if isinstance(error, OverBudget):
            reason = error.reason.replace("limits.", "bridge.")
            return {"status": "refused", "repo": target.name, "reason": reason}
        return {"status": "error", "repo": target.name, "reason": str(error)}
    facts = _describe(key, target, agent.name, result)
    await report_completion(context, key, facts)
    return facts


def _choose(context: ConversationContext, key: str, command: Subagent) -> tuple[RepoTarget, Agent]:
    """Return where the work is done, and by whom; raise before anything is sent."""
    settings = context.settings
    usual = settings.subagent or context.journal.run.spec.agent
    name = command.agent or usual
    if name not in (usual, *settings.allow_agents):
        raise ValueError(f"the agent {name} is not allowed (bridge.allow_agents)")
    target = find_target(command.repo, settings.allow_repos)
    agent = context.make_agent(name, target.repository)
    if agent.can.cloud and target.repository is None:
        raise ValueError(f"{name} works on hosted repositories, but {target.name} is a folder")
    if not agent.can.cloud and target.folder is None:
        raise ValueError(f"{name} works on this machine, but no folder is configured for {target.name}")
    begun = context.journal.state(f"{key}/launch/1") is not None
    if not begun and (problems := agent.check()):  # one that has ended is reported all the same
        raise UsageError(problems[0].message, hint=problems[0].fix)
    return target, agent


async def _launch(
    context: ConversationContext, key: str, command: Subagent, target: RepoTarget, agent: Agent
) -> StepResult[LaunchOutput]:
    run = context.journal.run.id
    raw = context.settings.prompt_text == "raw"
    prompt = subagent_prompt(command.prompt, agent.can.cloud, nonce=f"{run} {key}", raw=raw)
    by = ChosenAgent(agent, command.model)
    request = LaunchRequest(prompt, Mode.EDIT, context.folder())
    if agent.can.cloud:
        return await launch_agent(context, key, "subagent", by, replace(request, base=command.branch))
    assert target.folder is not None
    name = key.replace("/", "-")
    clone = Clone(target.folder, context.folder("clones") / name, f"segue/{run}/{name}", command.branch)

    async def push(_outcome: Outcome) -> tuple[str, ...]:
        branch = await clone.push(f"{command.prompt[:72]}\n\nSegue-Conversation: {run}\n")
        return (branch,) if branch else ()

    if context.journal.state(f"{key}/launch/1") in (None, StepState.STARTED):
        await clone.prepare()
    local = replace(request, workspace=clone.folder)
    result = await launch_agent(context, key, "subagent", by, local, push)
    clone.remove()
    return result


def _describe(key: str, target: RepoTarget, agent: str, result: StepResult[LaunchOutput]) -> dict[str, Any]:
    """Return what is known of a subagent that has ended."""
    output = result.output
    facts = {
        "status": "done" if result.ok else "error",
        "agent_id": output.agent_id or f"local-{key.replace('/', '-')}",
        "agent": agent,
        "repo": target.name,
        "branch": ", ".join(output.branches),
        "url": output.url or "",
        "reason": output.failure.message if output.failure else "",
        "text": keep_end(output.text, KEPT_TEXT),
    }
    return {name: value for name, value in facts.items() if value or name == "status"}
