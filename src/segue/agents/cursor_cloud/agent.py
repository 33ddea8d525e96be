"""The cursor-cloud agent: Cursor's Cloud Agents API, whose agents work elsewhere and push branches.

See `segue help cursor-cloud`. A launch is named after its token before it is requested, so a Segue that was
killed finds it again and never pays for a second one.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping

from msgspec.structs import replace

from segue.agents.cloud.agent import CloudAgent
from segue.agents.cloud.profile import CloudProfile
from segue.agents.cursor_cloud.api import CURSOR, KEY
from segue.agents.cursor_cloud.client import CloudV1
from segue.agents.cursor_cloud.client_v0 import CloudV0
from segue.agents.cursor_cloud.launch import RunStarter
from segue.agents.cursor_cloud.options import CursorCloudOptions
from segue.ports import Capabilities
from segue.system.services import Services


class CursorCloudAgent(CloudAgent):
    """Has the work done by Cursor's cloud agents; what it can do depends on the version of the API."""

    Options = CursorCloudOptions
    name = "cursor-cloud"

    def __init__(self, options: CursorCloudOptions, services: Services) -> None:
        super().__init__(_make_profile(options), options, services)


def _make_profile(options: CursorCloudOptions) -> CloudProfile:
    current = options.api_version == "v1"
    streams = options.max_streams if current and options.stream else 0
    return CloudProfile(
        name=CursorCloudAgent.name,
        service=replace(CURSOR, version=f"API {options.api_version}"),
        keys=(KEY,),
        can=Capabilities(
            plan_mode=current,
            follow_up=True,
            cloud=True,
            streams=bool(streams),
            reports_usage=current,
            reports_cost=current,
            marks_prompt=not current,
        ),
        headers=_make_bearer if current else _make_basic,
        connect=CloudV1 if current else CloudV0,
        where="https://cursor.com/dashboard",
        options=CursorCloudOptions,
        starter=RunStarter,
        streams=lambda _options: streams,
        silence_is_hang=True,
        names_branches=True,
        takes_model=True,
        mode_hint="" if current else " in API v0; set agents.cursor-cloud.api_version to v1",
    )


def _make_bearer(key: str) -> Mapping[str, str]:
    return {"Authorization": f"Bearer {key}"}


def _make_basic(key: str) -> Mapping[str, str]:
    """Return the only scheme that v0 documents."""
    return {"Authorization": "Basic " + base64.b64encode(f"{key}:".encode()).decode()}
