"""Notifications: tells people by terminal, desktop, webhook, mail, Slack or ntfy that a run needs them."""
