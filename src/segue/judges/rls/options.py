"""The table `[rls]`: the row level security check."""

from typing import Annotated, Literal

from msgspec import Meta

from segue.domain.options import Options, Seconds, Secret


class RlsOptions(Options, frozen=True):
    """The table `[rls]`."""

    enabled: Annotated[
        Literal["auto", "on", "off"],
        Meta(
            description="`auto`: check if there are `supabase/migrations` and a Postgres; `on`: fail "
            "without a Postgres."
        ),
    ] = "auto"
    database_url: Annotated[
        Secret | None,
        Meta(description="A Postgres server for the scratch database; a temporary one is started if unset."),
    ] = None
    schemas: Annotated[
        tuple[str, ...], Meta(min_length=1, description="The schemas that the project's API exposes.")
    ] = ("public",)
    timeout: Annotated[Seconds, Meta(description="Seconds the whole check may take.")] = 120
