"""Keys as their users see them."""

import pytest

from open_token.server import keys
from open_token.server.refusals import Refused
from open_token.server.store.rows import KeyRow
from rest import Rest

ROW = KeyRow(
    id="key_1", user_id="u", name="laptop", scope="read", masked="sk-ot-v1-...abcd", created_at="t"
)


def test_a_key_is_shown_without_its_secret() -> None:
    assert keys.shown(ROW).plaintext is None
    assert (keys.shown(ROW).masked, keys.shown(ROW).scope) == ("sk-ot-v1-...abcd", "read")


def test_a_key_that_is_not_there_cannot_be_ended(rest: Rest) -> None:
    caller = rest.run(rest.services.store.check_key(rest.key, rest.services.clock.now()))
    assert caller is not None
    with pytest.raises(Refused):
        rest.run(keys.revoke(rest.services, caller, "key_none"))
