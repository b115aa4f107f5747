"""Shares: read-only access to a session for anybody who has the token."""

import asyncio
from dataclasses import replace
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct

from open_token.context import Context
from open_token.model.document import Conversation, Event, Record
from open_token.model.log_events import NewEvent
from open_token.model.session_types import TurnProjection, to_builtins
from open_token.redaction.redactor import redact
from open_token.server.core.services import Services
from open_token.server.core.share_page import render_share
from open_token.server.errors import ApiError, not_found
from open_token.server.transfers.transfer import build_export_context
from open_token.session import SessionState

_replace = msgspec.structs.replace
_INTERNAL_BLOCKS = frozenset({"thinking", "tool_bridge", "system_notification"})


class ShareTerms(Struct, kw_only=True, omit_defaults=True):
    """What a share shows beyond messages and tool calls, and what is masked in it."""

    include_thinking: bool = False
    include_internal: bool = False
    redact: Literal["none", "secrets", "pii"] = "secrets"


class Opened(Struct, kw_only=True):
    """A new share; its token is returned here and never again."""

    token: str
    url: str
    expires_at: str | None


async def open_share(
    services: Services,
    owner: str,
    session_id: str,
    ttl_seconds: int | None,
    terms: ShareTerms,
    address: str,
) -> Opened:
    """Share a session for some seconds, or until the share is revoked (None)."""
    _require_sharing(services)
    now = services.clock.now()
    if ttl_seconds is None:
        expires_at = None
    else:
        expires_at = services.clock.now(plus=ttl_seconds)
    encoded_terms = msgspec.json.encode(terms)
    token = await services.store.add_share(owner, session_id, now, expires_at, encoded_terms)
    await _set_shared_flag(services, owner, session_id, True)
    base_url = (services.config.public_url or address).rstrip("/")
    return Opened(token=token, url=f"{base_url}/api/share/{token}", expires_at=expires_at)


async def revoke_share(services: Services, owner: str, session_id: str, token: str) -> None:
    """Revoke one token."""
    if not await services.store.revoke_share(owner, session_id, token):
        raise not_found("share")


async def set_sharing(services: Services, owner: str, session_id: str, is_shared: bool) -> None:
    """Mark a session as shared, or revoke all its tokens."""
    if is_shared:
        _require_sharing(services)
    await _set_shared_flag(services, owner, session_id, is_shared)
    if not is_shared:
        await services.store.revoke_share(owner, session_id)


async def show_share(services: Services, token: str) -> bytes:
    """Return the session of a token as a page: what `view_share` returns, and nothing else."""
    view, terms = await _read_share(services, token)
    return await asyncio.to_thread(render_share, view, terms.redact)


async def view_share(services: Services, token: str) -> dict[str, Any]:
    """Return the session of a token: the turns of the current branch without internals.

    They are redacted as an export is; the policy of the settings applies."""
    return (await _read_share(services, token))[0]


async def _read_share(services: Services, token: str) -> tuple[dict[str, Any], ShareTerms]:
    share = None
    if services.config.sharing:
        share = await services.store.share(token, services.clock.now())
    if share is None:
        raise not_found("share")
    terms = msgspec.json.decode(share.body, type=ShareTerms)
    state = await services.journal.state(share.owner, share.session_id)
    session = state.session
    shown = [redact_turn(turn, terms) for turn in state.branch()]
    turns = [to_builtins(turn) for turn in shown if turn is not None]
    context = build_export_context(services, {"redact": terms.redact})
    intent, turns = await services.jobs.run(
        share.owner,
        lambda check: _mask_turns(
            session.id, session.intent, turns, replace(context, checkpoint=check)
        ),
    )
    view = {
        "session": {
            "id": session.id,
            "intent": intent,
            "status": session.status,
            "created_at": session.created_at,
            "updated_at": session.updated_at,
            "model": session.model,
        },
        "turns": turns,
        "read_only": True,
        "expires_at": share.expires_at,
    }
    return view, terms


def redact_turn(turn: TurnProjection, terms: ShareTerms) -> TurnProjection | None:
    """Remove what the terms do not include; None when the whole turn is internal."""
    if terms.include_internal and terms.include_thinking:
        return turn
    if terms.include_internal:
        hidden = set()
    else:
        hidden = set(_INTERNAL_BLOCKS)
    if terms.include_thinking:
        hidden.discard("thinking")
    else:
        hidden.add("thinking")
    blocks = [block for block in turn.blocks if block.type not in hidden]
    if terms.include_internal:
        return _replace(turn, blocks=blocks, attempts=UNSET)
    if turn.role == "system":
        return None
    blocks = [_replace(block, more=UNSET) for block in blocks]
    calls = [_replace(call, more=UNSET) for call in turn.tool_calls]
    failure = UNSET if turn.failure_reason is UNSET else "the turn failed"
    return _replace(
        turn,
        blocks=blocks,
        tool_calls=calls,
        memory_refs=None,
        failure_reason=failure,
        attempts=UNSET,
        more=UNSET,
    )


def _mask_turns(
    session_id: str, intent: str, turns: list[Any], context: Context
) -> tuple[str, list[Any]]:
    """Return the title and the turns, with what the level masks as markers."""
    events: list[Event] = [
        {
            "id": f"evt_{number:06d}",
            "seq": number,
            "type": "message",
            "actor_id": "act_001",
            "visibility": "public",
            "role": "user",
            "content": {"mime": "application/json", "data": turn},
        }
        for number, turn in enumerate(turns, 1)
    ]
    conversation: Conversation = {"id": session_id, "title": intent}
    record = redact(Record(conversation, participants=[], events=events), context)
    return record.conversation["title"], [event["content"]["data"] for event in record.events]


def _require_sharing(services: Services) -> None:
    if not services.config.sharing:
        raise ApiError(403, "sharing is disabled on this server", "sharing_off")


async def _set_shared_flag(
    services: Services, owner: str, session_id: str, is_shared: bool
) -> None:
    def build_change(state: SessionState) -> list[NewEvent]:
        if state.session.shared == is_shared:
            return []
        return [("session.changed", {"changes": {"shared": is_shared}})]

    await services.journal.write(owner, session_id, build_change)
