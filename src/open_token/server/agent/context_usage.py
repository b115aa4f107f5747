"""How much of the context window is used: as counted by the provider, or else estimated."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from open_token.model.agent_settings import parse_settings
from open_token.model.session_types import ROOT_LOOP, ContextStats
from open_token.server.agent import history, prompt
from open_token.server.agent.model_interface import Json, ToolSpec
from open_token.server.agent.models import build_registry
from open_token.server.agent.token_estimates import estimate_messages as estimate_messages
from open_token.server.agent.token_estimates import estimate_text as estimate_text
from open_token.server.agent.token_estimates import estimate_tools as estimate_tools
from open_token.server.agent.tools import ask_user_question
from open_token.server.agent.tools.interface import Tool
from open_token.session import SessionState

if TYPE_CHECKING:
    from open_token.server.core.services import Services


def get_counted_tokens(state: SessionState, loop_id: str = ROOT_LOOP) -> int | None:
    """Return the tokens that the provider counted last, input and output.

    None before the first count, and after a compaction.
    """
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


def build_context_stats(
    services: "Services", state: SessionState, tools: Iterable[Tool] = ()
) -> ContextStats:
    """Return how the context window of the session's model is used; the parts add up."""
    models = build_registry(services.config, services.env)
    settings = parse_settings(state.agent.settings)
    model = state.session.model or models.default
    messages = history.build_messages(state)
    pending = messages.pop() if messages and messages[-1].role == "user" else None
    parts = {
        "system": estimate_text(
            prompt.build_system_prompt(state.mode, instructions=settings.instructions)
        ),
        "tools": estimate_tools(_list_offered(tools, state.mode)),
        "memory": _estimate_memories(state),
        "history": estimate_messages(messages),
    }
    counted = get_counted_tokens(state)
    if counted is not None:
        parts = _distribute(counted, parts)
    parts["pending"] = estimate_messages([pending]) if pending else 0
    return ContextStats(
        model=model,
        context_window=settings.context_window or models.window(model),
        used_tokens=sum(parts.values()),
        parts=parts,
        estimated=counted is None,
    )


def _list_offered(tools: Iterable[Tool], mode: str) -> list[ToolSpec]:
    specs = [tool.spec for tool in tools]
    if mode == "planning":
        return [spec for spec in specs if spec.name == ask_user_question.NAME]
    return specs


def _estimate_memories(state: SessionState) -> int:
    if not state.path:
        return 0
    refs = state.path[-1].facts.memory_refs or ()
    return sum(estimate_text(ref.content_preview) for ref in refs)


def _distribute(total: int, parts: dict[str, int]) -> dict[str, int]:
    """Distribute a total over the parts in proportion to their estimates."""
    estimated_total = sum(parts.values())
    shares: dict[str, int] = {}
    running = distributed = 0
    for name, part in parts.items():
        running += part
        shares[name] = total * running // estimated_total - distributed
        distributed += shares[name]
    return shares
