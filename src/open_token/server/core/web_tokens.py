"""JSON Web Tokens of an identity provider (OIDC): the user is the subject of the token."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import httpx2
import msgspec

from open_token.server.clock import format_timestamp
from open_token.server.core.access_tokens import find_external_user
from open_token.server.core.services import Services
from open_token.server.errors import ApiError
from open_token.server.store.rows import Caller, KeyRow, Scope

READ_SCOPE = "open-token:read"
"""A token whose `scope` contains this word may only read."""
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA")
"""Signatures by a private key only: a shared secret would let every holder mint tokens."""
_LEEWAY_SECONDS = 30
_MAX_LENGTH = 16 << 10
_REFRESH_SECONDS = 60.0
_MAX_AGE_SECONDS = 3600.0
_FETCH_SECONDS = 10.0


class _KeySet:
    """The keys of the provider, read again when a token names an unknown one."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._keys: dict[str | None, Any] = {}
        self._loaded_at: float | None = None
        self._lock = asyncio.Lock()

    async def find(self, key_id: str | None) -> Any:
        """Return a key, or None."""
        async with self._lock:
            if self._needs_load(key_id):
                await self._load()
        return self._keys.get(key_id)

    def _needs_load(self, key_id: str | None) -> bool:
        if self._loaded_at is None:
            return True
        age = asyncio.get_running_loop().time() - self._loaded_at
        return age > _MAX_AGE_SECONDS or (key_id not in self._keys and age > _REFRESH_SECONDS)

    async def _load(self) -> None:
        import jwt

        self._loaded_at = asyncio.get_running_loop().time()
        try:
            document = msgspec.json.decode(await self._read())
            keys = jwt.PyJWKSet.from_dict(document).keys
        except (httpx2.HTTPError, OSError, ValueError, jwt.PyJWTError) as problem:
            if self._keys:
                return
            self._loaded_at = None
            raise ApiError(
                503, "the keys of the identity provider cannot be read", "jwt_keys"
            ) from problem
        self._keys = {key.key_id: key for key in keys}

    async def _read(self) -> bytes:
        if not self._source.startswith(("https:", "http:")):
            return await asyncio.to_thread(Path(self._source).read_bytes)
        async with httpx2.AsyncClient(timeout=_FETCH_SECONDS) as client:
            answer = await client.get(self._source)
            answer.raise_for_status()
            return answer.content


_key_sets: WeakKeyDictionary[Any, _KeySet] = WeakKeyDictionary()
"""The keys by server."""


def looks_like_one(credential: str) -> bool:
    """Return whether a credential has the form of a JSON Web Token."""
    return credential.count(".") == 2 and len(credential) <= _MAX_LENGTH


async def check(services: Services, token: str) -> Caller | None:
    """Return the caller of a valid token; its user is created at the first one."""
    import jwt

    key_set = _key_sets.get(services.jobs)
    if key_set is None:
        key_set = _key_sets.setdefault(services.jobs, _KeySet(services.config.jwt_keys or ""))
    try:
        key = await key_set.find(jwt.get_unverified_header(token).get("kid"))
        if key is None:
            return None
        claims = jwt.decode(
            token,
            key,
            algorithms=_ALGORITHMS,
            audience=services.config.jwt_audience,
            issuer=services.config.jwt_issuer,
            options={"require": ["exp", "sub"]},
            leeway=_LEEWAY_SECONDS,
        )
    except jwt.PyJWTError:
        return None
    return await _build_caller(services, claims)


async def _build_caller(services: Services, claims: dict[str, Any]) -> Caller | None:
    subject = claims["sub"]
    if not isinstance(subject, str) or not 0 < len(subject) <= 200:
        return None
    try:
        user = await find_external_user(services, subject)
    except ApiError:
        return None
    scope: Scope = "full"
    if READ_SCOPE in str(claims.get("scope", "")).split():
        scope = "read"
    expires_at = format_timestamp(datetime.fromtimestamp(int(claims["exp"]), UTC))
    key = KeyRow(
        id="",
        user_id=user.id,
        name="web token",
        scope=scope,
        masked="",
        created_at=services.clock.now(),
    )
    return Caller(user=user, key=key, expires_at=expires_at)
