"""How many tokens words take, and what fills a model's window."""

from open_token.reducer import State
from open_token.server.services import Services
from open_token.turns import ContextStats, encode


def estimate(text: str) -> int:
    """About how many tokens a text takes."""
    return (len(text.encode("utf-8", "replace")) + 3) // 4


def context_stats(services: Services, state: State) -> ContextStats:
    """What fills the window."""
    history = estimate(encode(state.branch()).decode())
    parts = {"system": 0, "tools": 0, "memory": 0, "history": history, "pending": 0}
    return ContextStats(
        model=state.session.model, context_window=128_000, used_tokens=history, parts=parts, estimated=True
    )
