"""The script of the cloud simulator: what its agents do, and what goes wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from segue.domain.options import Options
from segue.sim.cloud.answers import ERROR_KINDS, ErrorShape
from segue.sim.script import check_pattern

RUN_FAULTS = {
    "stuck": "the run stays CREATING forever",
    "hang": "the run stays RUNNING forever",
    "error": "ends in ERROR, with an `error` and after a push",
    "error_bare": "ends in ERROR without an `error` and without a push",
    "expired": "ends in EXPIRED",
    "no_branch": "ends in FINISHED and has pushed nothing",
    "several_branches": "pushes to two branches",
    "unnamed_branch": "reports what it pushed without the branch's name",
    "branch_deleted": "the branch it reports is deleted on the remote",
    "unknown_status": "shows the status HIBERNATING forever",
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
    "reset_after": "the connection is reset; the request was served",
    "not_json": "200 with a body that is cut in the middle",
    "sse_cut": "the stream is cut in the middle of an event, after `events` whole ones",
    "sse_silent": "the stream says its status and then nothing, not even heartbeats",
    "sse_error": "the stream sends an `error` event with `code` and ends",
    **{code: f"{kind.status} with this code" for code, kind in ERROR_KINDS.items()},
}
"""What can go wrong with a request."""

STREAM_FAULTS = ("sse_cut", "sse_silent", "sse_error")
STREAM_PATH = "GET /v1/agents/*/runs/*/stream"


class CloudEntry(Options, frozen=True):
    """What an agent does in one run: when it applies, the work, and what goes wrong."""

    prompt: Annotated[
        str | None, Meta(description="runs whose prompt this regular expression is found in")
    ] = None
    turn: Annotated[int | None, Meta(description="1 is the launch, 2 the first follow-up, …")] = None
    launch: Annotated[int | None, Meta(description="the agent with this number, from 1")] = None
    times: Annotated[int, Meta(description="the entry serves this many runs; 0: any number")] = 0
    write: Annotated[dict[str, str] | None, Meta(description="files to write: path = content")] = None
    delete: Annotated[Sequence[str], Meta(description="files to delete")] = []
    say: Annotated[str | None, Meta(description="its reply, also the run's `result`")] = None
    thinking: Annotated[str, Meta(description="what it thinks before it speaks")] = ""
    tools: Annotated[
        Sequence[Mapping[str, Any]],
        Meta(description="tool calls: `type`, `name`, `args`, `result`, `status`"),
    ] = []
    create_delay: Annotated[float | None, Meta(description="seconds in CREATING")] = None
    delay: Annotated[float | None, Meta(description="seconds in RUNNING")] = None
    hold: Annotated[bool, Meta(description="stays RUNNING until `/_sim/agents/{id}/release`")] = False
    statuses: Annotated[
        Sequence[str],
        Meta(description="the statuses in order; if the last one is not terminal the run stays there"),
    ] = []
    push: Annotated[
        Literal["end", "early"], Meta(description="when it pushes: before its end, or at once")
    ] = "end"
    usage: Annotated[dict[str, int] | None, Meta(description="tokens by their API names")] = None
    cost: Annotated[dict[str, float] | None, Meta(description="`rawCostCents` and `chargedCents`")] = None
    error: Annotated[Any, Meta(description="the run's `error`, of any shape")] = None
    artifacts: Annotated[
        Mapping[str, str], Meta(description="artifacts: path under `artifacts/` = content")
    ] = {}
    faults: Annotated[Sequence[str], Meta(description="faults of runs")] = []

    def __post_init__(self) -> None:
        check_pattern(self.prompt)
        _check_faults(self.faults, RUN_FAULTS)


class CloudFault(Options, frozen=True):
    """A fault of requests: which ones, how often, and its details."""

    fault: Annotated[str, Meta(description="what goes wrong")]
    on: Annotated[
        str, Meta(description="method and path, `*` for any part: `POST /v1/agents`; empty: any request")
    ] = ""
    after: Annotated[int, Meta(description="this many matching requests pass first")] = 0
    times: Annotated[int, Meta(description="then this many fail; 0: all")] = 1
    delay: Annotated[float, Meta(description="seconds before anything else happens")] = 0.0
    retry_after: Annotated[str | None, Meta(description="the header Retry-After; unset: no such header")] = (
        None
    )
    status: Annotated[int, Meta(description="another HTTP status")] = 0
    code: Annotated[str, Meta(description="another code, of an error or of an `error` event")] = ""
    message: Annotated[str, Meta(description="another message")] = ""
    shape: Annotated[ErrorShape | None, Meta(description="`nested`, `flat`, `text` or `overview`")] = None
    events: Annotated[int, Meta(description="whole events before a cut")] = 0

    def __post_init__(self) -> None:
        _check_faults([self.fault], REQUEST_FAULTS)

    @property
    def pattern(self) -> str:
        """The requests that have the fault."""
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


class CloudScript(Options, frozen=True):
    """Everything the simulator can be told."""

    on: Annotated[
        Sequence[CloudEntry], Meta(description="what agents do; the first entry that matches is used")
    ] = []
    faults: Annotated[Sequence[CloudFault], Meta(description="what goes wrong with requests")] = []
    repos: Annotated[Mapping[str, Path], Meta(description="repository address = local bare repository")] = {}
    keys: Annotated[Sequence[str], Meta(description="the API keys that are known; empty: any key")] = []
    service_account: Annotated[bool, Meta(description="the key belongs to a team, not to a person")] = False
    models: Annotated[
        Sequence[str | Mapping[str, Any]],
        Meta(description="the models; bare strings as in April 2026 are served as such"),
    ] = msgspec.field(default_factory=lambda: [_COMPOSER, _SONNET, _GPT])
    pools: Annotated[Sequence[str], Meta(description="the pools and machines that exist")] = []
    create_delay: Annotated[float, Meta(description="seconds every run is CREATING")] = 0.0
    delay: Annotated[float, Meta(description="seconds every run is RUNNING")] = 0.02
    rate_limit: Annotated[int, Meta(description="requests per minute and key")] = 100_000
    active_limit: Annotated[int, Meta(description="runs that may be active at once; 0: any number")] = 0
    slow_lists: Annotated[
        bool, Meta(description="`/repositories` 1 a minute and 30 an hour; v0 artifacts 300, 6000")
    ] = True
    retention: Annotated[float, Meta(description="seconds a stream can be read after its run has ended")] = (
        86_400.0
    )
    heartbeat: Annotated[float, Meta(description="seconds of silence before a heartbeat")] = 15.0
    artifact_ttl: Annotated[float, Meta(description="seconds a download address works")] = 900.0
    stopped_status: Annotated[str, Meta(description="what v0 shows after a stop, which nobody documents")] = (
        "FINISHED"
    )
    stop_is_final: Annotated[bool, Meta(description="v0 refuses follow-ups after a stop")] = False
    webhook_retries: Annotated[
        int, Meta(description="deliveries after one that was not answered with 2xx")
    ] = 3
    webhook_pause: Annotated[
        float, Meta(description="seconds before the first of them; doubled each time")
    ] = 0.1


def _check_faults(names: Iterable[str], known: Mapping[str, str]) -> None:
    for name in names:
        if name not in known:
            raise ValueError(f"there is no fault {name!r}; there are {', '.join(known)}")
