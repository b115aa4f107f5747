"""Routes of webhooks."""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter
from fastapi.responses import Response
from msgspec import Struct

from open_token.server.core import webhooks
from open_token.server.core.webhooks import NewWebhook, Webhook
from open_token.server.http.auth import ReadCaller, ServicesDep, WriteCaller
from open_token.server.http.openapi import describe_body, describe_response, json_body
from open_token.server.http.responses import json_response

router = APIRouter(tags=["webhooks"])
_WEBHOOK = {
    "id": "webhook_5Gx0",
    "url": "https://app.example/hooks/agents",
    "events": ["turn.end", "question", "failure"],
    "secret": "",
    "created_at": "2026-01-31T08:00:00.000Z",
}


class WebhookDeleted(Struct):
    """The webhook was deleted."""

    deleted: bool


@router.post(
    "/api/webhooks",
    status_code=201,
    responses=describe_response(
        Webhook,
        _WEBHOOK | {"secret": "whsec_..."},
        "The webhook, its secret shown once",
        status=201,
    ),
    openapi_extra=describe_body(NewWebhook, {"url": _WEBHOOK["url"]}),
)
async def add(
    services: ServicesDep, caller: WriteCaller, given: Annotated[Any, json_body(NewWebhook)]
) -> Response:
    """Send a signed request to a URL when a run ends, fails, or asks something."""
    webhook = await webhooks.add_webhook(services, caller, given)
    return json_response(webhook, 201, {"Cache-Control": "no-store"})


@router.get("/api/webhooks", responses=describe_response([Webhook], [_WEBHOOK]))
async def listing(services: ServicesDep, caller: ReadCaller) -> Response:
    """List your webhooks, without their secrets."""
    known = await webhooks.list_webhooks(services, caller.user.id)
    return json_response([msgspec.structs.replace(webhook, secret="") for webhook in known])


@router.delete(
    "/api/webhooks/{webhook_id}",
    responses=describe_response(WebhookDeleted, {"deleted": True}),
)
async def delete(services: ServicesDep, caller: WriteCaller, webhook_id: str) -> Response:
    """Delete a webhook; deliveries that wait for another attempt are dropped."""
    await webhooks.delete_webhook(services, caller.user.id, webhook_id)
    return json_response({"deleted": True})
