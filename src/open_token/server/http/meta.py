"""Routes about the server itself: is it well, which version, what does it offer, who am I, how busy
is it."""

import asyncio
import time
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from msgspec import Struct

from open_token import __version__
from open_token.errors import StoreError
from open_token.server.agent.models import build_registry
from open_token.server.http.answers import answer
from open_token.server.http.auth import Reader, Serving
from open_token.server.http.openapi import gives, refuse_unless, sends
from open_token.server.services import Services

router = APIRouter(tags=["server"])

_MIN_SDK = "0.1.0"
_FRESH_SECONDS = 2.0
_PATIENCE = 5.0


class Health(Struct, omit_defaults=True):
    """`ok`, or what is wrong: `store` cannot be read, `disk` cannot be written."""

    status: str
    checks: dict[str, str]


class Version(Struct):
    """The version of the server, and of the oldest client that it speaks with."""

    version: str
    min_sdk: str


class Offered(Struct):
    """What the server offers."""

    publicSharingEnabled: bool  # noqa: N815  the wire's own name
    memoryEnabled: bool  # noqa: N815
    version: str
    limits: dict[str, int]


class Models(Struct):
    """The models to choose from."""

    default: str
    models: list[dict[str, Any]]
    baseUrl: str | None  # noqa: N815


class Me(Struct):
    """Whose key that is."""

    id: str
    username: str
    avatar_url: str | None
    created_at: str
    role: str
    scope: str


_WELL = {"status": "ok", "checks": {"store": "ok", "disk": "ok"}}


@router.get("/api/health", responses=gives(Health, _WELL))
@router.get("/api/health/runtime", responses=gives(Health, _WELL))
@router.get("/healthz", responses=gives(Health, _WELL))
async def health(request: Request, services: Serving) -> Response:
    """Whether the store can be read and the disk written, tried just now; 503 when not."""
    known: tuple[float, dict[str, str]] = getattr(request.app.state, "health", (0.0, {}))
    if not known[1] or time.monotonic() - known[0] > _FRESH_SECONDS:
        known = (time.monotonic(), await _checks(services))
        request.app.state.health = known
    is_well = all(word == "ok" for word in known[1].values())
    return answer(Health("ok" if is_well else "failed", known[1]), 200 if is_well else 503)


async def _checks(services: Services) -> dict[str, str]:
    store = await _tried(services.store.setting("health"))
    disk = await _tried(services.store.set_setting("health", services.clock.now()))
    # A full disk may have room for this one small row, and for nothing that anybody says.
    return {"store": store, "disk": services.journal.trouble or disk if disk == "ok" else disk}


async def _tried(work: Any) -> str:
    try:
        async with asyncio.timeout(_PATIENCE):
            await work
    except StoreError as problem:
        return problem.what
    except TimeoutError:
        return f"no answer within {_PATIENCE:.0f} seconds"
    return "ok"


@router.get("/api/version", responses=gives(Version, {"version": __version__, "min_sdk": _MIN_SDK}))
async def version() -> Response:
    """The version, and the oldest client that it speaks with."""
    return answer(Version(__version__, _MIN_SDK))


@router.get(
    "/api/config",
    responses=gives(
        Offered,
        {
            "publicSharingEnabled": True,
            "memoryEnabled": True,
            "version": __version__,
            "limits": {"body_bytes": 8388608, "upload_bytes": 268435456, "event_bytes": 1048576},
        },
    ),
)
async def offered(services: Serving, caller: Reader) -> Response:
    """What this server offers."""
    config, limits = services.config, services.config.limits
    told = {name: getattr(limits, name) for name in ("body_bytes", "upload_bytes", "event_bytes")}
    return answer(Offered(config.sharing, config.memory, __version__, told))


@router.get(
    "/api/config/models",
    responses=gives(
        Models,
        {
            "default": "demo",
            "models": [{"id": "demo", "name": "demo", "label": "Demo (offline)"}],
            "baseUrl": None,
        },
    ),
)
async def models(services: Serving, caller: Reader) -> Response:
    """The models to choose from, and which one is taken when none is named."""
    known = build_registry(services.config, services.env)
    return answer(Models(known.default, known.offered, services.config.base_url))


@router.get(
    "/api/auth/me",
    responses=gives(
        Me,
        {
            "id": "user_4Hn8pLw2Zs6VdQ0j",
            "username": "owner",
            "avatar_url": None,
            "created_at": "2026-01-31T08:00:00.000Z",
            "role": "owner",
            "scope": "full",
        },
    ),
)
async def me(caller: Reader) -> Response:
    """Whose key that is, and what it may do."""
    user = caller.user
    return answer(Me(user.id, user.name, None, user.created_at, user.role, caller.key.scope))


@router.get(
    "/metrics", response_class=Response, responses=sends("text/plain", "Figures for Prometheus")
)
async def metrics(services: Serving, caller: Reader) -> Response:
    """How busy the server is, for Prometheus; with a key of the owner's."""
    refuse_unless(caller.user.role == "owner", "only the owner may see this", "owner_only")
    return Response(services.metrics.text(), media_type="text/plain; version=0.0.4")
