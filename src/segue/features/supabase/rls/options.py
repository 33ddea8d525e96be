"""The table `[rls]`: the row level security check."""

from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from segue.domain.options import Options, Seconds, Secret

FOLDER = Path("supabase") / "migrations"


class RlsOptions(Options, frozen=True):
    """The table `[rls]`."""

    enabled: Literal["auto", "on", "off"] = "auto"
    """`auto`: check if there are `supabase/migrations` and a Postgres; `on`: fail without a Postgres."""
    database_url: Secret | None = None
    """A Postgres server for the scratch database; a temporary one is started if unset."""
    schemas: Annotated[tuple[str, ...], Meta(min_length=1)] = ("public",)
    """The schemas that the project's API exposes."""
    timeout: Seconds = 120
    """Seconds the whole check may take."""
