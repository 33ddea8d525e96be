"""`segue sim slack` and `segue sim ntfy`: simulate where notifications are read and answered."""

from segue.parts.sim.command import service_command

_HERE = "segue.parts.notify.sim"

ntfy = service_command(
    "ntfy",
    """Simulate an ntfy server on loopback until Ctrl-C.

Name its address as `url` in `[notify.ntfy]`. See `segue help simulators`.

\b
Examples:
  segue sim ntfy --port 8097
""",
    f"{_HERE}.chats:ntfy_app",
    f"{_HERE}.chats:NtfyScript",
)
slack = service_command(
    "slack",
    """Simulate a channel of Slack, with buttons, on loopback until Ctrl-C.

Name its address with `/services/T0/B0/x` as `url` in `[notify.slack]`. See `segue help simulators`.

\b
Examples:
  segue sim slack --port 8096 --script slack.toml
""",
    f"{_HERE}.chats:slack_app",
    f"{_HERE}.chats:SlackScript",
)
