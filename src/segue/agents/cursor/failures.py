"""The sentences that the Cursor CLI prints when it fails."""

from __future__ import annotations

from segue.agents.local.failures import FailureTable
from segue.domain.failure import FailureKind

LOGIN = "Run `cursor-agent login`, or set CURSOR_API_KEY."
FAILURES = FailureTable(
    "Cursor",
    LOGIN,
    at_start=(
        (
            r"^.*Workspace Trust Required.*$",
            FailureKind.NOT_STARTED,
            "Cursor does not trust this folder; set agents.cursor.trust = true, or trust it once by hand",
        ),
        (
            r"^.*Cannot use this model:.*$",
            FailureKind.NOT_STARTED,
            "Cursor does not know the model; `cursor-agent models` lists those it knows",
        ),
        (
            r"^.*Failed to claim persistent session.*$",
            FailureKind.NOT_STARTED,
            "Cursor does not accept the session to continue",
        ),
        (
            r"^(?:error: )?unknown option.*$",
            FailureKind.NOT_STARTED,
            "this version of Cursor does not know an option",
        ),
        (
            r"^.*Workspace path does not exist.*$",
            FailureKind.NOT_STARTED,
            "Cursor cannot find the workspace",
        ),
        (
            r"^.*(?:cli-config\.json\.tmp|Unexpected end of JSON input).*$",
            FailureKind.CRASH,
            "Cursor failed to read its own configuration file, as it does when several start at once; "
            "another attempt may work, and agents.cursor.own_config_dir = true avoids it",
        ),
    ),
)
