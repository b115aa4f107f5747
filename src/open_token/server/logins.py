"""Logins of pages: each has a key of its own that ends with the logout; pages of other origins get
theirs by a code."""

import hashlib
import hmac

import msgspec
from msgspec import Struct

from open_token.server.clock import moment_of
from open_token.server.refusals import Refused, bad
from open_token.server.services import Services
from open_token.server.store.rows import Caller, KeyRow, User

CODE_SECONDS = 60
_UNUSED_SECONDS = 30 * 24 * 3600
_NAME = "login:"
_LONGEST = 500


class Code(Struct, frozen=True):
    """What a page was promised: kept until it asks, and no longer than its time."""

    digest: str
    state: str
    origin: str
    until: str


async def login(services: Services, caller: Caller) -> str:
    """A key for whoever shows one that may change things; logins that were not used for a month
    end."""
    now = services.clock.now()
    for key in await services.store.keys(caller.user.id):
        if is_login(key) and key.id != caller.key.id and _unused(key, now) > _UNUSED_SECONDS:
            await services.store.revoke_key(caller.user.id, key.id, now)
    return await _new_key(services, caller.user.id)


async def logout(services: Services, caller: Caller) -> bool:
    """End the key of a login; one that was made otherwise stays, and False is told."""
    if not is_login(caller.key):
        return False
    return await services.store.revoke_key(caller.user.id, caller.key.id, services.clock.now())


def is_login(key: KeyRow) -> bool:
    """Whether a key was made by logging in."""
    return key.name.startswith(_NAME)


async def authorize(services: Services, caller: Caller, origin: str, state: str) -> str:
    """A code with which a page of another origin can log in as this person, once and soon; one at a
    time."""
    if origin not in services.config.cors or origin == "*":
        raise Refused(
            403,
            "pages of this origin may not log in; the operator's `cors` names those that may",
            "origin",
        )
    code = f"{caller.user.id}.{services.clock.word(32)}"
    kept = Code(_digest(code), state, origin, services.clock.now(plus=CODE_SECONDS))
    await services.store.set_setting(_place(caller.user.id), msgspec.json.encode(kept).decode())
    return code


async def exchange(services: Services, code: str, state: str, origin: str) -> tuple[User, str]:
    """The person and the key that a code stands for; whoever guesses wrong ends the code that is
    there."""
    user_id = code.partition(".")[0]
    may_be_one = len(code) <= _LONGEST and code.isascii() and code.isprintable()
    text = await services.store.take_setting(_place(user_id)) if may_be_one else None
    if text is None:
        raise _unknown()
    kept = msgspec.json.decode(text, type=Code)
    is_right = hmac.compare_digest(kept.digest, _digest(code)) and (kept.state, kept.origin) == (
        state,
        origin,
    )
    user = await services.store.user(user_id)
    if (
        not is_right
        or kept.until < services.clock.now()
        or user is None
        or user.disabled_at is not None
    ):
        raise _unknown()
    return user, await _new_key(services, user_id)


async def _new_key(services: Services, user_id: str) -> str:
    now = services.clock.now()
    _, plaintext = await services.store.add_key(user_id, f"{_NAME}{now}", "full", now)
    return plaintext


def _unknown() -> Refused:
    return bad("this code is not known, was used, or is too old", "bad_code")


def _place(user_id: str) -> str:
    return f"login/{user_id}"


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()


def _unused(key: KeyRow, now: str) -> float:
    return (moment_of(now) - moment_of(key.last_used_at or key.created_at)).total_seconds()
