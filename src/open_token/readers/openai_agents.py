"""The state of a run that the OpenAI Agents SDK writes down, in Python or JavaScript, to go on
later."""

from importlib import import_module

from open_token.draft import Draft
from open_token.source import Source

TITLE = "OpenAI Agents SDK (RunState)"
PLACES: tuple[str, ...] = ()
SEEN = "schemas 1.13 to 1.21 of the Python SDK; that of the JavaScript SDK described, not seen"
CARRIES = "the input, all items of all agents with handoffs, approvals that are waited for, guardrails, usage"
LEAVES = "the application's own context object, definitions of tools, and bookkeeping of the run"


def sniff(source: Source) -> bool:
    """Whether it is such a state."""
    sample = source.sample
    state = sample[0] if len(sample) == 1 else None
    if not isinstance(state, dict) or not isinstance(state.get("$schemaVersion"), str):
        return False
    return "original_input" in state or "originalInput" in state


def read(source: Source, draft: Draft) -> None:
    """Tell the conversation; what that takes is loaded only now."""
    import_module("open_token.readers._openai_agents").read(source, draft)
