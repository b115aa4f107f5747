"""Access tokens: short-lived rights that a backend hands to a browser or to a user of its own.

A token is a signed statement, not a row: it names the user, the key that minted it, its scope, its
session and its end. It ends with its time, with that key, and with that user."""

import base64
import binascii
import hashlib
import hmac
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from open_token.server.core.services import Services
from open_token.server.errors import ApiError, not_found
from open_token.server.store.errors import ConflictError
from open_token.server.store.rows import Caller, Scope, User

PREFIX = "ott1."
MAX_SECONDS = 24 * 3600
_MAX_LENGTH = 2000


class _Claims(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a token states."""

    user: str
    minter: str
    key: str
    scope: Scope
    expires_at: str
    session: str | None = None


class NewToken(Struct, kw_only=True, forbid_unknown_fields=True):
    """A token to be minted: for a session, for a user of the application, or both."""

    session_id: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    """The only session that it opens."""
    external_user: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    """A user of the application by its own id; created at the first token. Requires the owner."""
    scope: Literal["full", "read"] = "full"
    ttl_seconds: Annotated[int, Meta(ge=1, le=MAX_SECONDS)] = 3600


class MintedToken(Struct, kw_only=True):
    """A token; it is returned here and never again."""

    token: str
    expires_at: str
    user_id: str
    session_id: str | None
    scope: str


async def mint_token(services: Services, caller: Caller, wanted: NewToken) -> MintedToken:
    """Mint a token whose rights do not exceed those of the caller."""
    if caller.expires_at is not None:
        raise ApiError(403, "a token cannot mint tokens; use an API key", "token_scope")
    user = caller.user
    if wanted.external_user is not None:
        if caller.user.role != "owner":
            raise ApiError(403, "only the owner mints tokens for other users", "owner_only")
        user = await find_external_user(services, wanted.external_user)
    if wanted.session_id is not None:
        if await services.store.session(user.id, wanted.session_id) is None:
            raise not_found()
    expires_at = services.clock.now(plus=wanted.ttl_seconds)
    claims = _Claims(
        user=user.id,
        minter=caller.user.id,
        key=caller.key.id,
        scope=wanted.scope,
        expires_at=expires_at,
        session=wanted.session_id,
    )
    body = _encode(msgspec.json.encode(claims))
    signature = _encode(await services.store.sign(PREFIX + body))
    return MintedToken(
        token=f"{PREFIX}{body}.{signature}",
        expires_at=expires_at,
        user_id=user.id,
        session_id=wanted.session_id,
        scope=wanted.scope,
    )


async def find_external_user(services: Services, external_id: str) -> User:
    """Return the user of an id of the application, or of an identity provider; create it once."""
    digest = hashlib.sha256(external_id.encode()).hexdigest()
    user_id = f"user_x{digest[:24]}"
    user = await services.store.user(user_id)
    if user is None:
        user = User(
            id=user_id,
            name=f"external:{external_id}",
            role="user",
            created_at=services.clock.now(),
        )
        try:
            await services.store.add_user(user)
        except ConflictError:
            # Another request was faster.
            user = await services.store.user(user_id)
    if user is None or user.disabled_at is not None:
        raise ApiError(403, "this user is disabled", "user_disabled")
    return user


async def check_token(services: Services, token: str) -> Caller | None:
    """Return the caller of a valid token."""
    if len(token) > _MAX_LENGTH:
        return None
    body, _, signature = token.removeprefix(PREFIX).partition(".")
    expected = await services.store.sign(PREFIX + body)
    given = _decode(signature)
    if given is None or not hmac.compare_digest(given, expected):
        return None
    claims = msgspec.json.decode(_decode(body) or b"", type=_Claims)
    if claims.expires_at <= services.clock.now():
        return None
    user = await services.store.user(claims.user)
    if user is None or user.disabled_at is not None:
        return None
    minter = user
    if claims.minter != claims.user:
        found = await services.store.user(claims.minter)
        if found is None or found.disabled_at is not None:
            return None
        minter = found
    keys = await services.store.keys(minter.id)
    key = next((key for key in keys if key.id == claims.key), None)
    if key is None:
        return None
    # The key may have been made read-only or the token may be: the lesser right counts.
    scope: Scope = "full" if key.scope == claims.scope == "full" else "read"
    return Caller(
        user=user,
        key=msgspec.structs.replace(key, scope=scope),
        session_id=claims.session,
        expires_at=claims.expires_at,
    )


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decode(text: str) -> bytes | None:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        return None
