"""The script of the cloud simulator: what its agents do, and what goes wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from segue.sim.cloud.answers import KINDS, Shape
from segue.sim.http.script import compiles

RUN_FAULTS = {
    "stuck": "the run stays CREATING for ever",
    "hang": "the run stays RUNNING for ever",
    "error": "ends in ERROR, with an `error` and after a push",
    "error_bare": "ends in ERROR without an `error` and without a push",
    "expired": "ends in EXPIRED",
    "no_branch": "ends in FINISHED and has pushed nothing",
    "several_branches": "pushes to two branches",
    "unnamed_branch": "reports what it pushed without the branch's name",
    "branch_deleted": "the branch it reports is deleted on the remote",
    "unknown_status": "shows the status HIBERNATING for ever",
    "webhook_duplicate": "the webhook is delivered twice, with one id",
    "webhook_bad_signature": "the webhook is signed with another secret",
    "webhook_unsigned": "the webhook has no signature although there is a secret",
    "webhook_lost": "the webhook is never sent",
    "webhook_early": "the webhook arrives before the launch is answered",
}
"""What can go wrong with a run."""

REQUEST_FAULTS = {
    "bad_gateway": "502 with an HTML body",
    "slow": "the answer comes after `delay` seconds",
    "reset": "the connection is reset; nothing was done",
    "reset_after": "the connection is reset; the request was carried out",
    "not_json": "200 with a body that is cut in the middle",
    "sse_cut": "the stream is cut in the middle of an event, after `events` whole ones",
    "sse_silent": "the stream says its status and then nothing, not even heartbeats",
    "sse_error": "the stream sends an `error` event with `code` and ends",
    **{code: f"{kind.status} with this code" for code, kind in KINDS.items()},
}
"""What can go wrong with a request."""

STREAM_FAULTS = ("sse_cut", "sse_silent", "sse_error")
STREAM_PATH = "GET /v1/agents/*/runs/*/stream"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Entry(_Part):
    """What an agent does in one run: when it applies, the work, and what goes wrong."""

    prompt: str | None = Field(
        default=None, description="runs whose prompt this regular expression is found in"
    )
    turn: int | None = Field(default=None, description="1 is the launch, 2 the first follow-up, …")
    launch: int | None = Field(default=None, description="the agent with this number, from 1")
    times: int = Field(default=0, description="the entry serves so many runs; 0: any number")
    write: dict[str, str] | None = Field(default=None, description="files to write: path = content")
    delete: list[str] = Field(default=[], description="files to delete")
    say: str | None = Field(default=None, description="its reply, also the run's `result`")
    thinking: str = Field(default="", description="what it thinks before it speaks")
    tools: list[dict[str, Any]] = Field(
        default=[], description="tool calls: `type`, `name`, `args`, `result`, `status`"
    )
    create_delay: float | None = Field(default=None, description="seconds in CREATING")
    delay: float | None = Field(default=None, description="seconds in RUNNING")
    hold: bool = Field(default=False, description="stays RUNNING until `/_sim/agents/{id}/release`")
    statuses: list[str] = Field(
        default=[], description="the statuses in order; when the last one is not terminal the run stays there"
    )
    push: Literal["end", "early"] = Field(
        default="end", description="when it pushes: before its end, or at once"
    )
    usage: dict[str, int] | None = Field(default=None, description="tokens by their API names")
    cost: dict[str, float] | None = Field(default=None, description="`rawCostCents` and `chargedCents`")
    error: Any = Field(default=None, description="the run's `error`, of any shape")
    artifacts: dict[str, str] = Field(default={}, description="artifacts: path under `artifacts/` = content")
    faults: list[str] = Field(default=[], description="faults of runs")

    @field_validator("prompt")
    @classmethod
    def _compiles(cls, value: str | None) -> str | None:
        return compiles(value) if value is not None else None

    @field_validator("faults")
    @classmethod
    def _known(cls, value: list[str]) -> list[str]:
        return _only(value, RUN_FAULTS)


class Fault(_Part):
    """A fault of requests: which ones, how often, and its details."""

    fault: str = Field(description="what goes wrong")
    on: str = Field(
        default="", description="method and path, `*` for any part: `POST /v1/agents`; empty: any request"
    )
    after: int = Field(default=0, description="so many requests that fit pass first")
    times: int = Field(default=1, description="then so many are hit; 0: all")
    delay: float = Field(default=0.0, description="seconds before anything else happens")
    retry_after: str | None = Field(default=None, description="the header Retry-After; unset: no such header")
    status: int = Field(default=0, description="another HTTP status")
    code: str = Field(default="", description="another code, of an error or of an `error` event")
    message: str = Field(default="", description="another message")
    shape: Shape | None = Field(default=None, description="`nested`, `flat`, `text` or `overview`")
    events: int = Field(default=0, description="whole events before a cut")

    @field_validator("fault")
    @classmethod
    def _known(cls, value: str) -> str:
        return _only([value], REQUEST_FAULTS)[0]

    @property
    def pattern(self) -> str:
        """The requests it is about."""
        return self.on or (STREAM_PATH if self.fault in STREAM_FAULTS else "* *")


_COMPOSER: dict[str, Any] = {
    "id": "composer-2.5",
    "displayName": "Composer 2.5",
    "aliases": ["composer"],
    "parameters": [{"id": "effort", "values": [{"value": "low"}, {"value": "high"}]}],
    "variants": [
        {"params": [{"id": "effort", "value": "high"}], "displayName": "Composer 2.5", "isDefault": True}
    ],
}
_SONNET: dict[str, Any] = {"id": "claude-4.5-sonnet", "displayName": "Claude 4.5 Sonnet"}
_GPT: dict[str, Any] = {"id": "gpt-5.2", "displayName": "GPT-5.2", "description": "A model for hard work"}


class Script(_Part):
    """Everything a simulator can be told."""

    on: list[Entry] = Field(default=[], description="what agents do; the first entry that fits is used")
    faults: list[Fault] = Field(default=[], description="what goes wrong with requests")
    repos: dict[str, Path] = Field(default={}, description="repository address = local bare repository")
    keys: list[str] = Field(default=[], description="the API keys that are known; empty: any key")
    service_account: bool = Field(default=False, description="the key belongs to a team, not to a person")
    models: list[str | dict[str, Any]] = Field(
        default=[_COMPOSER, _SONNET, _GPT],
        description="the models; bare strings as in April 2026 are served as such",
    )
    pools: list[str] = Field(default=[], description="the pools and machines that exist")
    create_delay: float = Field(default=0.0, description="seconds every run is CREATING")
    delay: float = Field(default=0.02, description="seconds every run is RUNNING")
    rate_limit: int = Field(default=100_000, description="requests per minute and key")
    active_limit: int = Field(default=0, description="runs that may be active at once; 0: any number")
    slow_lists: bool = Field(
        default=True, description="`/repositories` 1 a minute and 30 an hour; v0 artifacts 300, 6000"
    )
    retention: float = Field(
        default=86_400.0, description="seconds a stream can be read after its run has ended"
    )
    heartbeat: float = Field(default=15.0, description="seconds of silence before a heartbeat")
    artifact_ttl: float = Field(default=900.0, description="seconds a download address works")
    stopped_status: str = Field(
        default="FINISHED", description="what v0 shows after a stop, which nobody documents"
    )
    stop_is_final: bool = Field(default=False, description="v0 refuses follow-ups after a stop")
    webhook_retries: int = Field(default=3, description="deliveries after one that was not answered with 2xx")
    webhook_pause: float = Field(
        default=0.1, description="seconds before the first of them; doubled each time"
    )


def _only(names: list[str], known: dict[str, str]) -> list[str]:
    for name in names:
        if name not in known:
            raise ValueError(f"there is no fault {name!r}; there are {', '.join(known)}")
    return names
