"""Keys as their users see them."""

import pytest

from helpers.server.rest_server import RestServer
from open_token.server.core import keys
from open_token.server.errors import ApiError
from open_token.server.store.rows import KeyRow

ROW = KeyRow(
    id="key_1", user_id="u", name="laptop", scope="read", masked="sk-ot-v1-...abcd", created_at="t"
)


def test_a_key_is_shown_without_its_secret() -> None:
    assert keys.to_api_key(ROW).plaintext is None
    assert (keys.to_api_key(ROW).masked, keys.to_api_key(ROW).scope) == ("sk-ot-v1-...abcd", "read")


def test_a_key_that_is_not_there_cannot_be_ended(rest: RestServer) -> None:
    caller = rest.run(rest.services.store.check_key(rest.key, rest.services.clock.now()))
    assert caller is not None
    with pytest.raises(ApiError):
        rest.run(keys.revoke_key(rest.services, caller, "key_none"))
