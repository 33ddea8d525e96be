"""Notifications: tells people by terminal, desktop, webhook, mail, Slack or ntfy that a run needs them."""

from segue.domain.part import Part, PartCommand, PartTable

_HERE = "segue.parts.notify"
_MEANING = "sends notifications"

PART = Part(
    name="notify",
    summary="Tells people that a run needs them: by terminal, desktop, webhook, mail, Slack or ntfy.",
    commands={
        "notify": PartCommand(f"{_HERE}.command:notify", "Set up", "Test the notifications."),
        "sim ntfy": PartCommand(f"{_HERE}.sim.command:ntfy", "Serve", "Simulate an ntfy server."),
        "sim slack": PartCommand(f"{_HERE}.sim.command:slack", "Serve", "Simulate a channel of Slack."),
    },
    tables={
        "notify": PartTable(f"{_HERE}.options:NotifySettings", _MEANING),
        "notifiers": PartTable(f"{_HERE}.options:Notifiers", _MEANING, named=True),
    },
    sockets={
        "notifiers": {
            "terminal": f"{_HERE}.terminal:TerminalNotifier",
            "desktop": f"{_HERE}.desktop:DesktopNotifier",
            "webhook": f"{_HERE}.webhook:WebhookNotifier",
            "email": f"{_HERE}.mail:MailNotifier",
            "slack": f"{_HERE}.slack:SlackNotifier",
            "ntfy": f"{_HERE}.ntfy:NtfyNotifier",
        },
        "observers": dict.fromkeys(("notify", "notifiers"), f"{_HERE}.observer:open_notifier"),
    },
    needs=("sim",),
    topics=("notifications",),
)
