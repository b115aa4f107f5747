"""The state of a run that the OpenAI Agents SDK writes down, in Python or JavaScript, to go on
later."""

from open_token.sources.source import Source


def sniff(source: Source) -> bool:
    """Whether it is such a state."""
    sample = source.sample
    state = sample[0] if len(sample) == 1 else None
    if not isinstance(state, dict) or not isinstance(state.get("$schemaVersion"), str):
        return False
    return "original_input" in state or "originalInput" in state
