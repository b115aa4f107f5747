"""How full a model's window is: what the provider counted where it did, and otherwise an estimate
that says so."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from open_token.reducer import State
from open_token.server.agent import history, prompt
from open_token.server.agent._counting import estimate as estimate
from open_token.server.agent._counting import estimate_messages as estimate_messages
from open_token.server.agent._counting import estimate_tools as estimate_tools
from open_token.server.agent.interface import Json
from open_token.server.agent.models import catalogue
from open_token.server.agent.tools import asking
from open_token.server.agent.tools.interface import Tool
from open_token.turns import ROOT, ContextStats

if TYPE_CHECKING:
    from open_token.server.services import Services


def counted(state: State, loop_id: str = ROOT) -> int | None:
    """What the provider counted last: what went in and came out; None before that, or when a
    compaction came since."""
    for turn in reversed(state.path):
        facts = turn.facts
        if facts.loop_id != loop_id:
            continue
        if facts.kind == "compaction":
            return None
        usage: Json = facts.usage or {}
        if facts.role == "assistant" and usage.get("input_tokens") and not usage.get("estimated"):
            return int(usage["input_tokens"]) + int(usage.get("output_tokens", 0))
    return None


def context_stats(services: "Services", state: State, tools: Iterable[Tool] = ()) -> ContextStats:
    """What fills the window of the model that the session talks with; the parts are the whole,
    taken apart."""
    models = catalogue(services.config, services.env)
    model = state.session.model or models.default
    messages = history.messages(state)
    memory = sum(
        estimate(ref.content_preview)
        for turn in state.path[-1:]
        for ref in turn.facts.memory_refs or ()
    )
    pending = messages.pop() if messages and messages[-1].role == "user" else None
    offered = [
        tool.spec
        for tool in tools
        if not (state.mode == "planning" and tool.spec.name != asking.NAME)
    ]
    parts = {
        "system": estimate(prompt.system_text(state.mode)),
        "tools": estimate_tools(offered),
        "memory": memory,
        "history": estimate_messages(messages),
    }
    known = counted(state)
    if known is not None:
        parts = _shared_out(known, parts)
    parts["pending"] = estimate_messages([pending]) if pending else 0
    return ContextStats(
        model=model,
        context_window=models.window(model),
        used_tokens=sum(parts.values()),
        parts=parts,
        estimated=known is None,
    )


def _shared_out(known: int, parts: dict[str, int]) -> dict[str, int]:
    """What a provider counted as a whole, shared out as the estimates of the parts stand to each
    other."""
    whole = sum(parts.values())
    made: dict[str, int] = {}
    so_far = given = 0
    for name, part in parts.items():
        so_far += part
        made[name] = known * so_far // whole - given
        given += made[name]
    return made
