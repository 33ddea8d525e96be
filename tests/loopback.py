"""Requests to servers on this machine, without reading certificates each time."""

from __future__ import annotations

from functools import partial

import httpx2

_TIMEOUT = 300.0
"""A busy machine may take longer than the five seconds that are usual."""

get = partial(httpx2.get, trust_env=False, verify=False, timeout=_TIMEOUT)
post = partial(httpx2.post, trust_env=False, verify=False, timeout=_TIMEOUT)
put = partial(httpx2.put, trust_env=False, verify=False, timeout=_TIMEOUT)
patch = partial(httpx2.patch, trust_env=False, verify=False, timeout=_TIMEOUT)
delete = partial(httpx2.delete, trust_env=False, verify=False, timeout=_TIMEOUT)
request = partial(httpx2.request, trust_env=False, verify=False, timeout=_TIMEOUT)
client = partial(httpx2.Client, trust_env=False, verify=False, timeout=_TIMEOUT)
async_client = partial(httpx2.AsyncClient, trust_env=False, verify=False, timeout=_TIMEOUT)
