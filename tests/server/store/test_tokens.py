"""Keys and tokens: made, checked, digested."""

import pytest

from open_token.server.store import tokens


def test_a_key_carries_its_id_and_a_checksum() -> None:
    key_id, plaintext = tokens.generate_key()
    assert plaintext.startswith(f"sk-ot-v1-{key_id.removeprefix('key_')}_")
    assert tokens.parse_key_id(plaintext) == key_id
    assert tokens.generate_key()[1] != plaintext


@pytest.mark.parametrize("place", range(9, 59, 3))
def test_one_wrong_letter_is_seen(place: int) -> None:
    _, plaintext = tokens.generate_key()
    wrong = plaintext[:place] + ("a" if plaintext[place] != "a" else "b") + plaintext[place + 1 :]
    assert tokens.parse_key_id(wrong) is None


@pytest.mark.parametrize("text", ["", "sk-ot-v1-", "Bearer", "sk-ot-v1-\u0661", "\n"])
def test_what_is_no_key_has_no_id(text: str) -> None:
    assert tokens.parse_key_id(text) is None


def test_a_key_in_a_list_shows_its_last_letters() -> None:
    assert tokens.mask_key("wxyz") == "sk-ot-v1-...wxyz"


def test_a_digest_needs_the_pepper() -> None:
    one, other = b"1" * 32, b"2" * 32
    assert tokens.hash_secret(one, "secret") == tokens.hash_secret(one, "secret")
    assert tokens.hash_secret(one, "secret") != tokens.hash_secret(other, "secret")
    assert len(tokens.hash_secret(one, "secret")) == 32
    assert tokens.hash_pepper(one) != tokens.hash_pepper(other)


def test_share_tokens_are_long_and_never_the_same() -> None:
    made = {tokens.generate_share_token() for _ in range(100)}
    assert len(made) == 100
    assert {len(token) for token in made} == {43}
