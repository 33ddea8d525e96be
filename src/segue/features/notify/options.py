"""The table `[notify]`: what people are notified about, and where."""

from segue.domain.notification import NotificationKind
from segue.domain.options import Options, Secret


class NotifySettings(Options, frozen=True):
    """The table `[notify]`: what people are notified about, and where."""

    urls: tuple[Secret, ...] = ()
    """Addresses in Apprise's form, such as `slack://…`, `mailto://…`, `ntfy://…`, `json://…` or `dbus://`."""
    on: tuple[NotificationKind, ...] = ("needs_human", "run_finished", "parked", "stuck", "reminder")
    """What to notify about."""
