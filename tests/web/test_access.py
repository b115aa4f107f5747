"""Nobody but the browser that was let in, on pages of the application, gets anything."""

from pathlib import Path

import pytest

from helpers.web_client import HOST, WebClient


@pytest.fixture
def client(tmp_path: Path) -> WebClient:
    return WebClient(tmp_path)


PATHS = ("/", "/sessions", "/web/sessions", "/web/assets/app.js", "/web/changes", "/nothing")


@pytest.mark.parametrize("path", PATHS)
def test_without_the_cookie_there_is_nothing(client: WebClient, path: str) -> None:
    answer = client.send(path, cookie="")
    assert answer.status == 401
    assert answer.json["error"] == "not signed in"


def test_a_browser_without_the_cookie_reads_what_to_do(client: WebClient) -> None:
    answer = client.send("/", cookie="", accept="text/html")
    assert answer.status == 401
    assert "open-token web" in answer.text


def test_a_link_works_once(client: WebClient) -> None:
    link = client.access.create_link()
    first = client.send(link, cookie="")
    assert first.status == 303
    assert first.headers["location"] == "/"
    second = client.send(link, cookie="")
    assert second.status == 403
    assert "set-cookie" not in second.headers


def test_the_browser_that_is_in_may_use_its_link_again(client: WebClient) -> None:
    link = client.access.create_link()
    client.enter(link)
    assert client.send(link).status == 303


@pytest.mark.parametrize("token", ["", "x", "\u00e9", "a" * 10_000])
def test_a_wrong_link_opens_nothing(client: WebClient, token: str) -> None:
    answer = client.send(f"/enter?token={token}", cookie="")
    assert answer.status == 403
    assert "set-cookie" not in answer.headers


def test_only_so_many_links_are_open(client: WebClient) -> None:
    links = [client.access.create_link() for _ in range(30)]
    assert client.send(links[0], cookie="").status == 403
    assert client.send(links[-1], cookie="").status == 303


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(client: WebClient) -> None:
    answer = client.send(client.access.create_link(), cookie="")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "max-age" not in cookie


def test_the_cookie_of_another_process_is_refused(client: WebClient, tmp_path: Path) -> None:
    other = WebClient(tmp_path / "other")
    assert other.cookie != client.cookie
    assert client.send("/web/sessions", cookie=other.cookie).status == 401


@pytest.mark.parametrize("cookie", ["open_token_8021=", "open_token_8021=\u00e9", "other=1"])
def test_an_invented_cookie_is_refused(client: WebClient, cookie: str) -> None:
    assert client.send("/web/sessions", cookie=cookie).status == 401


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "localhost:80", "", "127.0.0.1:80"])
def test_another_host_name_is_refused(client: WebClient, host: str) -> None:
    """A name that an attacker lets point to this machine (DNS rebinding) is no name of ours."""
    for path in ("/", "/web/sessions", client.access.create_link()):
        assert client.send(path, host=host).status == 403


def test_localhost_is_a_name_of_this_machine(client: WebClient) -> None:
    assert client.send("/web/sessions", host="localhost:8021").status == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:9000", ""])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_foreign_origin_is_refused(client: WebClient, origin: str, method: str) -> None:
    answer = client.send(
        "/web/sessions", method, origin=origin, **{"content-type": "application/json"}
    )
    assert answer.status == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_request_of_another_site_is_refused(client: WebClient, site: str) -> None:
    assert client.send("/web/sessions", sec_fetch_site=site).status == 403


def test_own_requests_pass(client: WebClient) -> None:
    own = {"origin": f"http://{HOST}", "sec-fetch-site": "same-origin"}
    assert client.send("/web/sessions", **own).status == 200


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
def test_a_form_cannot_change_anything(client: WebClient, content_type: str) -> None:
    """What a page of another site could send without asking first is refused."""
    answer = client.send(
        "/web/sessions", "POST", b"{}", origin=f"http://{HOST}", **{"content-type": content_type}
    )
    assert answer.status == 415


def test_a_changing_request_of_a_browser_states_its_origin(client: WebClient) -> None:
    answer = client.send(
        "/web/sessions",
        "POST",
        b"{}",
        sec_fetch_site="same-origin",
        **{"content-type": "application/json"},
    )
    assert answer.status == 403


@pytest.mark.parametrize("path", ["/", "/web/sessions", "/web/assets/app.js", "/nothing"])
def test_every_answer_has_a_strict_policy(client: WebClient, path: str) -> None:
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"


@pytest.mark.parametrize("path", ["../page.css", "../../api.py", "%2e%2e/app.py", "", "screens"])
def test_only_assets_are_assets(client: WebClient, path: str) -> None:
    assert client.get(f"/web/assets/{path}").status == 404
