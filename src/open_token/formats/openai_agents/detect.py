"""Detection of run states of the OpenAI Agents SDK."""

from open_token.sources.source import Source


def sniff(source: Source) -> bool:
    """Return whether the source is the state of a run."""
    if len(source.sample) != 1:
        return False
    state = source.sample[0]
    if not isinstance(state, dict) or not isinstance(state.get("$schemaVersion"), str):
        return False
    return "original_input" in state or "originalInput" in state
