"""How full a model's window is: what the provider counted where it did, and otherwise an estimate that says so."""

from typing import TYPE_CHECKING

from open_token.reducer import State
from open_token.server.agent import history, prompt
from open_token.server.agent._counting import estimate as estimate
from open_token.server.agent._counting import estimate_messages as estimate_messages
from open_token.server.agent._counting import estimate_tools as estimate_tools
from open_token.server.agent.interface import Json
from open_token.server.agent.models import catalogue
from open_token.turns import ROOT, ContextStats

if TYPE_CHECKING:
    from open_token.server.services import Services


def counted(state: State, loop_id: str = ROOT) -> int | None:
    """What the provider counted last: what went in and came out; None before that, or when a compaction came since."""
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


def context_stats(services: "Services", state: State) -> ContextStats:
    """What fills the window of the model that the session talks with."""
    models = catalogue(services.config, services.env)
    model = state.session.model or models.default
    messages = history.messages(state)
    memory = sum(estimate(ref.content_preview) for turn in state.path[-1:] for ref in turn.facts.memory_refs or ())
    pending = messages.pop() if messages and messages[-1].role == "user" else None
    parts = {
        "system": estimate(prompt.system_text(state.mode)),
        "tools": 0,
        "memory": memory,
        "history": estimate_messages(messages),
        "pending": estimate_messages([pending]) if pending else 0,
    }
    known = counted(state)
    used = sum(parts.values())
    if known is not None:
        used = known + parts["pending"]
        parts["tools"] = max(0, used - sum(parts.values()))
    return ContextStats(
        model=model, context_window=models.window(model), used_tokens=used, parts=parts, estimated=known is None
    )
