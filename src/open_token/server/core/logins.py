"""Logins of web pages: a key per login, revoked at logout; other origins log in by a code."""

import hashlib
import hmac

import msgspec
from msgspec import Struct

from open_token.server.clock import parse_timestamp
from open_token.server.core.keys import check_key_limit
from open_token.server.core.services import Services
from open_token.server.errors import ApiError, bad_request
from open_token.server.store.rows import Caller, KeyRow, User

CODE_SECONDS = 60
_MAX_UNUSED_SECONDS = 30 * 24 * 3600
_KEY_NAME_PREFIX = "login:"
_MAX_CODE_LENGTH = 500


class LoginCode(Struct, frozen=True):
    """An issued code, stored as a hash until it is exchanged or expires."""

    digest: str
    state: str
    origin: str
    until: str


async def login(services: Services, caller: Caller) -> str:
    """Create a key for a login; logins that were not used for a month are revoked."""
    if caller.expires_at is not None:
        raise ApiError(403, "a token cannot log in; use an API key", "token_scope")
    now = services.clock.now()
    for key in await services.store.keys(caller.user.id):
        if not is_login(key) or key.id == caller.key.id:
            continue
        if _seconds_unused(key, now) > _MAX_UNUSED_SECONDS:
            await services.store.revoke_key(caller.user.id, key.id, now)
    return await _create_login_key(services, caller.user.id)


async def logout(services: Services, caller: Caller) -> bool:
    """Revoke the key of a login; returns False for any other key, which stays valid."""
    if not is_login(caller.key):
        return False
    return await services.store.revoke_key(caller.user.id, caller.key.id, services.clock.now())


def is_login(key: KeyRow) -> bool:
    """Return whether a key was created by a login."""
    return key.name.startswith(_KEY_NAME_PREFIX)


async def create_code(services: Services, caller: Caller, origin: str, state: str) -> str:
    """Create a single-use code with which a page of another origin can log in as the caller.

    A user has one code at a time."""
    # With the wildcard any page could request a code.
    if origin not in services.config.cors or origin == "*":
        raise ApiError(403, "this origin is not allowed to log in; see the setting cors", "origin")
    code = f"{caller.user.id}.{services.clock.word(32)}"
    expires_at = services.clock.now(plus=CODE_SECONDS)
    record = LoginCode(_hash_code(code), state, origin, expires_at)
    await services.store.set_setting(
        _setting_name(caller.user.id), msgspec.json.encode(record).decode()
    )
    return code


async def exchange_code(services: Services, code: str, state: str, origin: str) -> tuple[User, str]:
    """Exchange a code for its user and a key.

    Any attempt consumes the current code of the user, so it cannot be guessed."""
    user_id = code.partition(".")[0]
    text = None
    if len(code) <= _MAX_CODE_LENGTH and code.isascii() and code.isprintable():
        text = await services.store.take_setting(_setting_name(user_id))
    if text is None:
        raise _invalid_code()
    record = msgspec.json.decode(text, type=LoginCode)
    is_same_code = hmac.compare_digest(record.digest, _hash_code(code))
    is_same_request = record.state == state and record.origin == origin
    if not is_same_code or not is_same_request or record.until < services.clock.now():
        raise _invalid_code()
    user = await services.store.user(user_id)
    if user is None or user.disabled_at is not None:
        raise _invalid_code()
    return user, await _create_login_key(services, user_id)


async def _create_login_key(services: Services, user_id: str) -> str:
    await check_key_limit(services, user_id)
    now = services.clock.now()
    _, plaintext = await services.store.add_key(user_id, f"{_KEY_NAME_PREFIX}{now}", "full", now)
    return plaintext


def _invalid_code() -> ApiError:
    return bad_request("login code unknown, already used or expired", "bad_code")


def _setting_name(user_id: str) -> str:
    return f"login/{user_id}"


def _hash_code(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()


def _seconds_unused(key: KeyRow, now: str) -> float:
    last_used = parse_timestamp(key.last_used_at or key.created_at)
    return (parse_timestamp(now) - last_used).total_seconds()
