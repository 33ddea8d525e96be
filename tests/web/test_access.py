"""Who gets into the page: links, cookies and the token."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from starlette.requests import HTTPConnection

from segue.runtime.app import App
from segue.web.app import serve_pages
from segue.web.auth import LINK_SECONDS, PageKeys
from tests import loopback
from tests.cli.place import Place
from tests.web.place import Served, browse, fetch, serving


def at_address(served: Served) -> str:
    """Return where the page listens, without its name."""
    return f"http://127.0.0.1:{urlsplit(served.url).port}"


def token_of(served: Served) -> str:
    return Path(json.loads(served.log.read_text().splitlines()[0])["token_file"]).read_text().strip()


def test_the_cookie_counts_at_the_name_of_the_page_alone(served: Served) -> None:
    [cookie] = served.client.cookies.jar
    assert not cookie.domain_specified, "no other host gets it"
    sent = {"cookie": f"{cookie.name}={cookie.value}"}
    assert fetch(f"{served.url}/runs", **sent).status_code == 200
    plain = at_address(served)
    for host in (plain, plain.replace("127.0.0.1", "localhost"), plain.replace("127.0.0.1", "[::1]")):
        headers = {**sent, "host": urlsplit(host).netloc}
        assert loopback.get(f"{plain}/runs", headers=headers).status_code == 401
    bearer = {"authorization": f"Bearer {cookie.value}"}
    assert fetch(f"{served.url}/runs", **bearer).status_code == 401, "a cookie is no token"


def test_programs_send_the_token_in_a_header(served: Served) -> None:
    token = token_of(served)
    plain = f"{at_address(served)}/runs.json"
    known = {"authorization": f"Bearer {token}"}
    assert loopback.get(plain, headers=known).status_code == 200
    [cookie] = served.client.cookies.jar
    assert token not in str(cookie.value)
    for cookies in (f"{cookie.name}={token}", f"token={token}"):
        assert fetch(f"{served.url}/runs", cookie=cookies).status_code == 401
    assert fetch(f"{served.url}/runs?token={token}").status_code == 401


def test_the_address_leads_who_has_a_link_to_the_name(place: Place) -> None:
    with serving(place, entered=False) as served:
        plain = served.link.replace(served.url, at_address(served))
        for path in ("/", "/runs", "/enter", "/enter?key=guessed", "/health"):
            said = loopback.get(at_address(served) + path)
            assert str(urlsplit(served.url).hostname) not in said.text + str(said.headers), path
        led = loopback.get(plain)
        assert led.status_code == 307
        assert led.headers["location"] == served.link
        assert "set-cookie" not in led.headers
        assert served.enter().status_code == 200, "the link was not used up"
        assert loopback.get(plain).status_code == 403


def test_another_browser_gets_a_link_of_its_own(place: Place, served: Served) -> None:
    first, second = [place.json("serve", "--link")["link"] for _ in range(2)]
    assert first != second
    assert first.startswith(f"{served.url}/enter?key=")
    for link in (second, first):
        with browse() as client:
            assert client.get(link).status_code == 200
            assert client.get(f"{served.url}/runs").status_code == 200
            assert fetch(link).status_code == 403
    assert "No page is being served on port 1" in place.segue("serve", "--link", "--port", "1", code=2).stderr


def test_a_browser_stays_in_when_the_server_is_started_again(place: Place) -> None:
    with serving(place) as served:
        [cookie] = served.client.cookies.jar
        port = urlsplit(served.url).port
    with serving(place, "--port", str(port), entered=False) as again:
        sent = {"cookie": f"{cookie.name}={cookie.value}"}
        assert fetch(f"{again.url}/runs", **sent).status_code == 200


@pytest.mark.parametrize("part", [0, 1, 2])
def test_a_changed_cookie_is_refused(served: Served, part: int) -> None:
    [cookie] = served.client.cookies.jar
    parts = str(cookie.value).split(".")
    parts[part] = parts[part][:-1] + ("1" if parts[part][-1] != "1" else "2")
    sent = {"cookie": f"{cookie.name}={'.'.join(parts)}"}
    assert fetch(f"{served.url}/runs", **sent).status_code == 401


def make_request(keys: PageKeys, cookie: str = "") -> HTTPConnection:
    headers = [(b"host", keys.host.encode()), (b"cookie", cookie.encode())]
    return HTTPConnection({"type": "http", "headers": headers})


def test_links_and_cookies_expire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = PageKeys(tmp_path / "page")
    key = keys.make_link("/runs").partition("=")[2]
    cookie = keys.make_cookie(make_request(keys)).partition(";")[0]
    link = keys.find_link(key)
    assert link is not None
    assert link.where == "/runs"
    assert keys.is_known(make_request(keys, cookie))
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + LINK_SECONDS + 1)
    assert keys.redeem(key) is None
    assert keys.is_known(make_request(keys, cookie))
    keys.make_link("/runs")
    monkeypatch.setattr(time, "time", lambda: real() + 15 * 86_400)
    assert not keys.is_known(make_request(keys, cookie))
    keys.make_link("/runs")
    assert len(list((tmp_path / "page" / "links").iterdir())) == 1, "old links are forgotten"


def test_of_many_who_use_a_link_at_once_one_gets_in(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    keys = PageKeys(tmp_path / "page")
    key = keys.make_link("/runs").partition("=")[2]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(keys.redeem, [key] * 32))
    assert found.count("/runs") == 1
    assert found.count(None) == 31


def test_the_log_says_who_was_refused_and_contains_no_key(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "segue.web")
    app = App.load(tmp_path, None, {"state_dir": str(tmp_path / "state")})

    async def visit() -> str:
        async with serve_pages(app, "127.0.0.1", 0) as make_link:
            link = make_link("/runs")
            host = urlsplit(link).netloc
            for where in (link, f"http://{host}/runs", f"http://{host}/nothing"):
                await asyncio.to_thread(fetch, where)
            return link

    link = urlsplit(asyncio.run(visit()))
    said = caplog.text
    assert f"serving the page at http://127.0.0.1:{link.port}" in said
    assert "a browser came with a link: let in" in said
    assert "refused GET /runs of 127.0.0.1: it is not known" in said
    assert "is not served any more" in said
    assert link.query.removeprefix("key=") not in said
    assert str(link.hostname) not in said, "its name is for those who have a link"
