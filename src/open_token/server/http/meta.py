"""Routes about the server: health, version, configuration, the current user, metrics."""

import asyncio
import time
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from msgspec import Struct

from open_token import __version__
from open_token.errors import StoreError
from open_token.server.agent.models import build_registry
from open_token.server.core.services import Services
from open_token.server.http.auth import ReadCaller, ServicesDep
from open_token.server.http.openapi import describe_media, describe_response, require_enabled
from open_token.server.http.responses import json_response

router = APIRouter(tags=["server"])

_MIN_SDK = "0.1.0"
_CACHE_SECONDS = 2.0
_CHECK_TIMEOUT = 5.0


class Health(Struct, omit_defaults=True):
    """The status, and one check each for reading (`store`) and writing (`disk`)."""

    status: str
    checks: dict[str, str]


class Version(Struct):
    """The version of the server, and of the oldest supported client."""

    version: str
    min_sdk: str


class Offered(Struct):
    """The features and limits of the server."""

    publicSharingEnabled: bool  # noqa: N815 - a name of the protocol
    memoryEnabled: bool  # noqa: N815
    version: str
    limits: dict[str, int]


class Models(Struct):
    """The available models."""

    default: str
    models: list[dict[str, Any]]
    baseUrl: str | None  # noqa: N815


class Me(Struct):
    """The user of a key."""

    id: str
    username: str
    avatar_url: str | None
    created_at: str
    role: str
    scope: str


_HEALTHY = {"status": "ok", "checks": {"store": "ok", "disk": "ok"}}


@router.get("/api/health", responses=describe_response(Health, _HEALTHY))
@router.get("/api/health/runtime", responses=describe_response(Health, _HEALTHY))
@router.get("/healthz", responses=describe_response(Health, _HEALTHY))
async def health(request: Request, services: ServicesDep) -> Response:
    """Check whether the store can be read and written; 503 when it cannot."""
    checked_at, checks = getattr(request.app.state, "health", (0.0, {}))
    if not checks or time.monotonic() - checked_at > _CACHE_SECONDS:
        checks = await _run_checks(services)
        request.app.state.health = (time.monotonic(), checks)
    if all(result == "ok" for result in checks.values()):
        return json_response(Health("ok", checks))
    return json_response(Health("failed", checks), 503)


async def _run_checks(services: Services) -> dict[str, str]:
    store = await _check(services.store.setting("health"))
    disk = await _check(services.store.set_setting("health", services.clock.now()))
    # A full disk may have space for this small row, and for no log entry.
    if disk == "ok" and services.journal.recent_failure:
        disk = services.journal.recent_failure
    return {"store": store, "disk": disk}


async def _check(work: Any) -> str:
    try:
        async with asyncio.timeout(_CHECK_TIMEOUT):
            await work
    except StoreError as problem:
        return problem.what
    except TimeoutError:
        return f"timeout after {_CHECK_TIMEOUT:.0f} seconds"
    return "ok"


@router.get(
    "/api/version",
    responses=describe_response(Version, {"version": __version__, "min_sdk": _MIN_SDK}),
)
async def version() -> Response:
    """Get the version of the server, and of the oldest supported client."""
    return json_response(Version(__version__, _MIN_SDK))


@router.get(
    "/api/config",
    responses=describe_response(
        Offered,
        {
            "publicSharingEnabled": True,
            "memoryEnabled": True,
            "version": __version__,
            "limits": {"body_bytes": 8388608, "upload_bytes": 268435456, "event_bytes": 1048576},
        },
    ),
)
async def offered(services: ServicesDep, caller: ReadCaller) -> Response:
    """Get the features and limits of this server."""
    config = services.config
    names = ("body_bytes", "upload_bytes", "event_bytes")
    limits = {name: getattr(config.limits, name) for name in names}
    return json_response(Offered(config.sharing, config.memory, __version__, limits))


@router.get(
    "/api/config/models",
    responses=describe_response(
        Models,
        {
            "default": "demo",
            "models": [{"id": "demo", "name": "demo", "label": "Demo (offline)"}],
            "baseUrl": None,
        },
    ),
)
async def models(services: ServicesDep, caller: ReadCaller) -> Response:
    """List the available models, and the default one."""
    known = build_registry(services.config, services.env)
    # The address of a service inside the network is the operator's business.
    base_url = services.config.base_url if caller.user.role == "owner" else None
    return json_response(Models(known.default, known.offered, base_url))


@router.get(
    "/api/auth/me",
    responses=describe_response(
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
async def me(caller: ReadCaller) -> Response:
    """Get the user and the scope of the key."""
    user = caller.user
    return json_response(Me(user.id, user.name, None, user.created_at, user.role, caller.key.scope))


@router.get(
    "/metrics",
    response_class=Response,
    responses=describe_media("text/plain", "Metrics in the format of Prometheus"),
)
async def metrics(services: ServicesDep, caller: ReadCaller) -> Response:
    """Get metrics for Prometheus; requires a key of the owner."""
    require_enabled(caller.user.role == "owner", "only the owner may read metrics", "owner_only")
    return Response(services.metrics.render(), media_type="text/plain; version=0.0.4")
