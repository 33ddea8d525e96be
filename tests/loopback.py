"""Requests to servers on this machine, without reading certificates each time."""

from __future__ import annotations

from functools import partial

import httpx2

get = partial(httpx2.get, trust_env=False, verify=False)
post = partial(httpx2.post, trust_env=False, verify=False)
put = partial(httpx2.put, trust_env=False, verify=False)
patch = partial(httpx2.patch, trust_env=False, verify=False)
delete = partial(httpx2.delete, trust_env=False, verify=False)
request = partial(httpx2.request, trust_env=False, verify=False)
client = partial(httpx2.Client, trust_env=False, verify=False)
async_client = partial(httpx2.AsyncClient, trust_env=False, verify=False)
