"""Sessions below the routes: what is masked, what is left when making one fails."""

import pytest

from helpers.server.rest_server import RestServer
from open_token.errors import StoreError
from open_token.server.core import environments


@pytest.mark.parametrize(
    ("name", "is_masked"),
    [
        ("API_KEY", True),
        ("token", True),
        ("DB_PASSWORD", True),
        ("AWS_SECRET", True),
        ("STAGE", False),
        ("PATH", False),
    ],
)
def test_names_that_look_secret(name: str, is_masked: bool) -> None:
    assert environments.mask_environment({name: "x"}) == {
        name: environments.MASK if is_masked else "x"
    }


def test_a_session_that_was_not_made_leaves_no_environment(
    rest: RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: object, **__: object) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(rest.services.journal, "create", fails)
    kept: list[str] = []
    write = rest.services.store.set_setting

    async def noted(key: str, value: str | None) -> None:
        kept.append("kept" if value else "gone")
        await write(key, value)

    rest.services.store.set_setting = noted  # type: ignore[method-assign]
    assert rest.refused("POST", "/api/sessions", {"env": {"A": "b"}}) == 503
    assert kept == ["kept", "gone"]
