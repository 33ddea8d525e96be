"""What can be chosen by name, and what features add to the core, in tables of texts.

Nothing is imported before it is used: a text such as `"package.module:name"` says where it is. Other packages
add variants of a kind with an entry point in the group `segue.KIND`, such as `segue.agents`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

VARIANTS: Mapping[str, Mapping[str, str]] = {
    "agents": {
        "claude": "segue.agents.claude.agent:ClaudeAgent",
        "codex": "segue.agents.codex.agent:CodexAgent",
        "command": "segue.agents.command:CommandAgent",
        "copilot": "segue.agents.acp.agent:COPILOT",
        "cursor": "segue.agents.cursor.agent:CursorAgent",
        "cursor-cloud": "segue.agents.cursor_cloud.agent:CursorCloudAgent",
        "gemini": "segue.agents.acp.agent:GEMINI",
        "opencode": "segue.agents.acp.agent:OPENCODE",
        "qwen": "segue.agents.acp.agent:QWEN",
        "scripted": "segue.agents.scripted.agent:ScriptedAgent",
    },
    "sources": {
        "prompt": "segue.sources.prompt:PromptSource",
        "speckit": "segue.sources.speckit.source:SpecKit",
        "planfile": "segue.sources.plan.source:PlanFile",
        "github": "segue.sources.github.source:GithubIssues",
        "table": "segue.sources.table:TableSource",
    },
    "reviewers": {
        "command": "segue.reviewers.command:CommandReviewer",
        "ruff": "segue.reviewers.command:RUFF",
        "semgrep": "segue.reviewers.command:SEMGREP",
        "stet": "segue.reviewers.stet.reviewer:StetReviewer",
    },
    "judges": {
        "llm": "segue.judges.llm:LlmJudge",
        "checks": "segue.judges.checks:ChecksJudge",
    },
    "notifiers": {
        "terminal": "segue.features.notify.terminal:TerminalNotifier",
        "desktop": "segue.features.notify.desktop:DesktopNotifier",
        "webhook": "segue.features.notify.webhook:WebhookNotifier",
        "email": "segue.features.notify.mail:MailNotifier",
        "slack": "segue.features.notify.slack:SlackNotifier",
        "ntfy": "segue.features.notify.ntfy:NtfyNotifier",
    },
    "deliveries": {
        "branch": "segue.deliveries.local:BranchDelivery",
        "merge": "segue.deliveries.local:MergeDelivery",
        "pr": "segue.deliveries.pull_request:PullRequestDelivery",
    },
}
"""Kind → name → where its class is."""


class FeatureCommand(NamedTuple):
    """A command of a feature."""

    where: str
    heading: str
    """The group of `segue --help` that lists it."""
    help: str
    """Its line there."""


COMMANDS: Mapping[str, FeatureCommand] = {
    "check rls": FeatureCommand(
        "segue.features.supabase.command:rls", "Run", "Test the row level security of a Supabase project."
    ),
    "experiment": FeatureCommand(
        "segue.features.dataset.experiment.command:experiment",
        "Run",
        "Compare agents and models on the same prompts.",
    ),
    "report": FeatureCommand(
        "segue.features.dataset.reports.command:report",
        "Look",
        "Show where agents fail, what helps, and who does better.",
    ),
    "notify": FeatureCommand("segue.features.notify.command:notify", "Set up", "Test the notifications."),
    "bridge": FeatureCommand(
        "segue.features.bridge.command:bridge", "Serve", "Run the commands that an agent prints."
    ),
    "mcp": FeatureCommand(
        "segue.features.mcp.command:mcp", "Serve", "Let other agents and editors hand work to Segue."
    ),
    "proxy": FeatureCommand(
        "segue.features.litellm.command:proxy", "Serve", "Serve agents as models through LiteLLM's proxy."
    ),
    "relay": FeatureCommand(
        "segue.features.relay.command:relay",
        "Serve",
        "Run approved actions on this machine for a bridge elsewhere.",
    ),
    "db supabase": FeatureCommand(
        "segue.features.supabase.command:supabase", "Data", "Write the schema as migrations of a project."
    ),
    "fleet": FeatureCommand(
        "segue.features.fleet.commands.fleet:fleet",
        "Fleet",
        "Prepare a fleet's database, see what the fleet does.",
    ),
    "submit": FeatureCommand(
        "segue.features.fleet.commands.submit:submit",
        "Fleet",
        "Let the workers of a fleet run a task list.",
    ),
    "worker": FeatureCommand(
        "segue.features.fleet.commands.fleet:worker", "Fleet", "Work for a fleet on this machine."
    ),
}
"""The words after `segue` → a command of a feature."""


class FeatureTable(NamedTuple):
    """A table of settings that a feature adds."""

    where: str
    """Its type: a class of `Options`, or a dict whose keys are names."""
    meaning: str
    """The risk that `segue trust` shows for it: "serves agents as models"."""
    harmless: tuple[str, ...] = ()
    """Its settings that take effect without trust."""
    confined: tuple[str, ...] = ()
    """Its settings that have no effect outside of a run: whoever submits one to a fleet may choose them."""
    paths: tuple[str, ...] = ()
    """Its settings that name a file, relative to the configuration file that sets them."""
    agents: tuple[str, ...] = ()
    """Its settings that name agents."""
    personal: bool = False
    """Whether it belongs into the user's own file: `segue init` leaves it out."""
    named: bool = False
    """Whether its keys are names: an environment variable spells their dashes as underscores."""


_ELSEWHERE = "lets agents elsewhere run commands here"
_MODELS = "serves agents as models"
_SERVICES = "sends work and questions to services, with your keys"
_NOTIFIES = "sends notifications"

TABLES: Mapping[str, FeatureTable] = {
    "bridge": FeatureTable(
        "segue.features.bridge.options:BridgeSettings",
        _ELSEWHERE,
        paths=("relay_token_file",),
        agents=("subagent", "allow_agents"),
    ),
    "worker": FeatureTable(
        "segue.features.fleet.options:WorkerSettings", "lets this machine work for a fleet", personal=True
    ),
    "provider": FeatureTable("segue.features.litellm.options:ProviderSettings", _MODELS),
    "profiles": FeatureTable("segue.features.litellm.options:Profiles", _MODELS, named=True),
    "notify": FeatureTable("segue.features.notify.options:NotifySettings", _NOTIFIES),
    "notifiers": FeatureTable("segue.features.notify.options:Notifiers", _NOTIFIES, named=True),
    "relay": FeatureTable(
        "segue.features.relay.options:RelaySettings",
        _ELSEWHERE,
        personal=True,
    ),
    "rls": FeatureTable(
        "segue.features.supabase.rls.options:RlsOptions",
        _SERVICES,
        confined=("enabled", "schemas", "timeout"),
    ),
}
"""Name → a table of settings of a feature."""

EVENTS: Mapping[str, str] = {
    "bridge.turn": "segue.features.bridge.events:BridgeTurn",
    "bridge.command": "segue.features.bridge.events:BridgeCommand",
    "bridge.skipped": "segue.features.bridge.events:BridgeSkipped",
    "bridge.result": "segue.features.bridge.events:BridgeResult",
    "bridge.reminder": "segue.features.bridge.events:BridgeReminder",
    "bridge.webhook": "segue.features.bridge.events:BridgeWebhook",
    "trace.span": "segue.features.litellm.events:TraceSpan",
}
"""Kind of event in the store → the class of a feature that describes it."""

PAGES = ("segue.features.dataset.pages",)
"""Modules with pages and actions of `segue serve`: see `segue/web/routes.py`. Their templates are beside them
in `templates`, and in its `page.css` what they add to the style sheet."""

OBSERVERS: Mapping[str, str] = {
    "notify": "segue.features.notify.observer:open_notifier",
    "notifiers": "segue.features.notify.observer:open_notifier",
}
"""Table of settings → what makes the observer of a run that it asks for."""

EXAMINERS: Mapping[str, str] = {"rls": "segue.features.supabase.examiner:make_examiner"}
"""Name → what makes the examiner of a whole project."""

CALLS: Mapping[str, str] = {
    "bridge.hold": "segue.features.bridge.command:hold",
    "fleet.find_submitted": "segue.features.fleet.remote:find_submitted",
    "fleet.read_tasks": "segue.features.fleet.remote:read_tasks",
    "fleet.resume": "segue.features.fleet.remote:resume",
    "fleet.stop": "segue.features.fleet.remote:stop",
}
"""What the core calls of a feature, which it must not import."""


def import_name(where: str) -> Any:
    """Import what a text such as `package.module:name` stands for."""
    module, _, path = where.partition(":")
    found: Any = importlib.import_module(module)
    for name in path.split("."):
        found = getattr(found, name)
    return found


def find_call(name: str) -> Any:
    """Import a function of a feature that the core calls."""
    return import_name(CALLS[name])
