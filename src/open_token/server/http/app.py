"""The REST application: routers, exception handlers and middleware."""

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from starlette.exceptions import HTTPException

from open_token import __version__
from open_token.errors import StoreError
from open_token.model.log_events import LogError
from open_token.server.core.services import Services
from open_token.server.errors import ApiError
from open_token.server.http import (
    ag_ui,
    branches,
    client_data,
    files,
    keys,
    logins,
    memories,
    messages,
    meta,
    openai,
    profiles,
    replays,
    responses,
    schedules,
    sessions,
    shares,
    skills,
    static,
    tasks,
    tokens,
    transfer,
    users,
    webhooks,
)
from open_token.server.http.auth import AuthBeforeBody
from open_token.server.http.middleware import MessagesFastPath, RequestLog, StrictJson
from open_token.server.http.openapi import openapi_factory
from open_token.server.limits import RequestLimits
from open_token.server.ws.sse import router as events

ROUTERS = (
    meta,
    static,
    sessions,
    client_data,
    profiles,
    branches,
    keys,
    users,
    logins,
    memories,
    shares,
    # Before messages: the path of a session also fits /api/sessions/tokenize/messages.
    tokens,
    messages,
    files,
    skills,
    tasks,
    transfer,
    replays,
    schedules,
    webhooks,
    openai,
    ag_ui,
)

_DESCRIPTION = """\
Live sessions of agents, one append-only log each. Errors are `{"detail", "code"}`; timestamps are
ISO 8601 in UTC; lists take `limit` and `offset`, and then return `total`. Send
`Authorization: Bearer <key>` unless a route is public."""


def build_app(services: Services) -> FastAPI:
    """Build the REST application; the caller starts and stops the services."""
    app = FastAPI(
        title="Open-Token session server",
        version=__version__,
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
    )
    app.state.services = services
    app.add_exception_handler(ApiError, responses.handle_api_error)
    app.add_exception_handler(StoreError, responses.handle_store_error)
    app.add_exception_handler(LogError, responses.handle_log_fault)
    app.add_exception_handler(RequestValidationError, responses.handle_validation_error)
    app.add_exception_handler(HTTPException, responses.handle_http_exception)
    for module in ROUTERS:
        app.include_router(module.router)
    app.include_router(events)
    app.openapi = openapi_factory(app)  # type: ignore[method-assign]
    _add_middleware(app, services)
    return app


def _add_middleware(app: FastAPI, services: Services) -> None:
    # The middleware added last is the outermost.
    app.add_middleware(StrictJson)
    app.add_middleware(AuthBeforeBody, services=services)
    app.add_middleware(MessagesFastPath, services=services)
    app.add_middleware(RequestLimits, limits=services.config.limits)
    if services.config.cors:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(services.config.cors),
            allow_methods=["*"],
            allow_headers=["Authorization", "Content-Type", "Last-Event-ID", "X-Blade-Client"],
            expose_headers=["Content-Disposition", "Retry-After"],
            max_age=600,
        )
    app.add_middleware(RequestLog, metrics=services.metrics)
