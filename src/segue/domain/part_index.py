"""The parts that come with Segue, as they describe themselves. Written by `make docs`: do not edit."""

from segue.domain.part import Part, PartCommand, PartFiles, PartTable

PARTS: tuple[Part, ...] = (
    Part(
        name="bridge",
        summary="Runs the commands that an agent without keys prints: conversations, webhooks, reminders.",
        commands={
            "bridge": PartCommand(
                where="segue.parts.bridge.command:bridge",
                heading="Serve",
                help="Run the commands that an agent prints.",
            ),
        },
        tables={
            "bridge": PartTable(
                where="segue.parts.bridge.options:BridgeSettings",
                meaning="lets agents elsewhere run commands here",
                paths=("relay_token_file",),
                agents=(
                    "subagent",
                    "allow_agents",
                ),
            ),
        },
        events={
            "bridge.turn": "segue.parts.bridge.events:BridgeTurn",
            "bridge.command": "segue.parts.bridge.events:BridgeCommand",
            "bridge.skipped": "segue.parts.bridge.events:BridgeSkipped",
            "bridge.result": "segue.parts.bridge.events:BridgeResult",
            "bridge.reminder": "segue.parts.bridge.events:BridgeReminder",
            "bridge.webhook": "segue.parts.bridge.events:BridgeWebhook",
        },
        sockets={
            "continues": {
                "conversation": "segue.parts.bridge.command:hold",
            },
            "scenes": {
                "bridge": "segue.parts.bridge.demo:show_bridge",
            },
        },
        pages=("segue.parts.bridge.page",),
        needs=("relay",),
        extras=("bridge",),
        topics=("bridge",),
    ),
    Part(
        name="clouds",
        summary="Lets cloud agents of Anthropic, GitHub, Cognition and Google work on tasks.",
        commands={
            "sim claude-cloud": PartCommand(
                where="segue.parts.clouds.command:claude_cloud",
                heading="Serve",
                help="Simulate Claude Managed Agents.",
            ),
            "sim copilot-cloud": PartCommand(
                where="segue.parts.clouds.command:copilot_cloud",
                heading="Serve",
                help="Simulate GitHub Copilot's agent tasks.",
            ),
            "sim devin": PartCommand(
                where="segue.parts.clouds.command:devin",
                heading="Serve",
                help="Simulate Devin.",
            ),
            "sim jules": PartCommand(
                where="segue.parts.clouds.command:jules",
                heading="Serve",
                help="Simulate Google Jules.",
            ),
        },
        sockets={
            "agents": {
                "claude-cloud": "segue.parts.clouds.claude:CLAUDE_CLOUD",
                "copilot-cloud": "segue.parts.clouds.copilot:COPILOT_CLOUD",
                "devin": "segue.parts.clouds.devin:DEVIN",
                "jules": "segue.parts.clouds.jules:JULES",
            },
        },
        topics=("clouds",),
    ),
    Part(
        name="litellm",
        summary="Serves agents as models, in a program that uses LiteLLM or through LiteLLM's proxy.",
        commands={
            "proxy": PartCommand(
                where="segue.parts.litellm.command:proxy",
                heading="Serve",
                help="Serve agents as models through LiteLLM's proxy.",
            ),
        },
        tables={
            "provider": PartTable(
                where="segue.parts.litellm.options:ProviderSettings",
                meaning="serves agents as models",
            ),
            "profiles": PartTable(
                where="segue.parts.litellm.options:Profiles",
                meaning="serves agents as models",
                named=True,
            ),
        },
        events={
            "trace.span": "segue.parts.litellm.events:TraceSpan",
        },
        extras=(
            "litellm",
            "proxy",
        ),
        topics=("litellm",),
    ),
    Part(
        name="relay",
        summary="Runs actions that you allowed on this machine for a bridge elsewhere.",
        commands={
            "relay": PartCommand(
                where="segue.parts.relay.command:relay",
                heading="Serve",
                help="Run approved actions on this machine for a bridge elsewhere.",
            ),
        },
        tables={
            "relay": PartTable(
                where="segue.parts.relay.options:RelaySettings",
                meaning="lets agents elsewhere run commands here",
                paths=(
                    "certfile",
                    "keyfile",
                ),
                personal=True,
            ),
        },
        sockets={
            "questions": {
                "relay": "segue.parts.relay.web:list_questions",
            },
        },
        pages=("segue.parts.relay.web",),
        topics=("relay",),
    ),
    Part(
        name="supabase",
        summary="Tests the row level security of Supabase projects, and keeps the dataset in one.",
        commands={
            "check rls": PartCommand(
                where="segue.parts.supabase.command:rls",
                heading="Run",
                help="Test the row level security of a Supabase project.",
            ),
            "db supabase": PartCommand(
                where="segue.parts.supabase.command:supabase",
                heading="Data",
                help="Write the schema as migrations of a project.",
            ),
        },
        tables={
            "rls": PartTable(
                where="segue.parts.supabase.rls.options:RlsOptions",
                meaning="sends work and questions to services, with your keys",
                confined=(
                    "enabled",
                    "schemas",
                    "timeout",
                ),
            ),
        },
        sockets={
            "examiners": {
                "rls": "segue.parts.supabase.examiner:make_examiner",
            },
        },
        extras=("rls",),
    ),
    Part(
        name="trackers",
        summary="Takes tasks from Task Master and beads, and tells them what is done.",
        sockets={
            "sources": {
                "taskmaster": "segue.parts.trackers.taskmaster:TaskMasterSource",
                "beads": "segue.parts.trackers.beads:BeadsSource",
            },
        },
        files={
            "taskmaster": PartFiles(
                named=(
                    ".taskmaster",
                    ".taskmaster/*.json",
                ),
                usual=".taskmaster/tasks/tasks.json",
            ),
            "beads": PartFiles(
                named=(
                    ".beads",
                    ".beads/*.jsonl",
                ),
                usual=".beads/issues.jsonl",
            ),
        },
        topics=("tasks",),
    ),
)
