"""Sessions that whoever has a token may read: what is opened, for how long, and what of it is
shown."""

from typing import Any

import msgspec
from msgspec import UNSET, Struct

from open_token.model.session_types import TurnProjection
from open_token.server.refusals import Refused, missing
from open_token.server.services import Services

_replace = msgspec.structs.replace
_HIDDEN = frozenset({"thinking", "tool_bridge", "system_notification"})


class Terms(Struct, kw_only=True, omit_defaults=True):
    """What was agreed when a session was opened."""

    include_thinking: bool = False
    include_internal: bool = False


class Opened(Struct, kw_only=True):
    """A share, its token shown here and never again."""

    token: str
    url: str
    expires_at: str | None


async def open_share(
    services: Services,
    owner: str,
    session_id: str,
    ttl_seconds: int | None,
    terms: Terms,
    address: str,
) -> Opened:
    """Open a session for reading, for some seconds or until it is taken back."""
    if not services.config.sharing:
        raise Refused(403, "sharing is switched off on this server", "sharing_off")
    now = services.clock.now()
    until = None if ttl_seconds is None else services.clock.now(plus=ttl_seconds)
    token = await services.store.add_share(
        owner, session_id, now, until, msgspec.json.encode(terms)
    )
    await _mark(services, owner, session_id, True)
    base = (services.config.public_url or address).rstrip("/")
    return Opened(token=token, url=f"{base}/api/share/{token}", expires_at=until)


async def revoke(services: Services, owner: str, session_id: str, token: str) -> None:
    """Take one token back."""
    if not await services.store.revoke_share(owner, session_id, token):
        raise missing("share")


async def switch(services: Services, owner: str, session_id: str, is_shared: bool) -> None:
    """Mark a session as shared; or take all its tokens back."""
    if is_shared and not services.config.sharing:
        raise Refused(403, "sharing is switched off on this server", "sharing_off")
    await _mark(services, owner, session_id, is_shared)
    if not is_shared:
        await services.store.revoke_share(owner, session_id)


async def view(services: Services, token: str) -> dict[str, Any]:
    """What a token shows: the turns of the current branch, without what is not for strangers."""
    share = (
        await services.store.share(token, services.clock.now()) if services.config.sharing else None
    )
    if share is None:
        raise missing("share")
    terms = msgspec.json.decode(share.body, type=Terms)
    state = await services.journal.state(share.owner, share.session_id)
    session = state.session
    return {
        "session": {
            "id": session.id,
            "intent": session.intent,
            "status": session.status,
            "created_at": session.created_at,
            "updated_at": session.updated_at,
            "model": session.model,
        },
        "turns": [turn for whole in state.branch() if (turn := shown(whole, terms)) is not None],
        "read_only": True,
        "expires_at": share.expires_at,
    }


def shown(turn: TurnProjection, terms: Terms) -> TurnProjection | None:
    """A turn as a stranger sees it; None when it is not for them."""
    if terms.include_internal and terms.include_thinking:
        return turn
    hidden = set() if terms.include_internal else set(_HIDDEN)
    if terms.include_thinking:
        hidden.discard("thinking")
    else:
        hidden.add("thinking")
    blocks = [block for block in turn.blocks if block.type not in hidden]
    if terms.include_internal:
        return _replace(turn, blocks=blocks)
    if turn.role == "system":
        return None
    blocks = [_replace(block, more=UNSET) for block in blocks]
    calls = [_replace(call, more=UNSET) for call in turn.tool_calls]
    failure = turn.failure_reason if turn.failure_reason is UNSET else "the turn failed"
    return _replace(
        turn, blocks=blocks, tool_calls=calls, memory_refs=None, failure_reason=failure, more=UNSET
    )


async def _mark(services: Services, owner: str, session_id: str, is_shared: bool) -> None:
    await services.journal.write(
        owner,
        session_id,
        lambda state: (
            []
            if state.session.shared == is_shared
            else [("session.changed", {"changes": {"shared": is_shared}})]
        ),
    )
