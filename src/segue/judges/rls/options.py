"""The settings of the row level security check."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr


class RlsOptions(BaseModel):
    """The table `[rls]`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: Literal["auto", "on", "off"] = Field(
        "auto",
        description="`auto`: if there are `supabase/migrations` and a Postgres; `on`: a failure without one.",
    )
    database_url: SecretStr | None = Field(
        None,
        description="A Postgres server for the scratch database; a throw-away server is started if unset.",
    )
    schemas: tuple[str, ...] = Field(
        ("public",), min_length=1, description="The schemas that the project's API exposes."
    )
    timeout: float = Field(120, gt=0, description="Seconds the whole check may take.")
