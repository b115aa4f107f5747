"""Whose a model is, told by the name that a runtime gave it."""

_FAMILIES = (
    ("claude", "anthropic"),
    ("gemini", "google"),
    ("gemma", "google"),
    ("llama", "meta"),
    ("gpt", "openai"),
    ("codex", "openai"),
)
_SHORT = ("o1", "o3", "o4")


def provider_of(model: str | None) -> str | None:
    """The provider in the spec's words; None when no model is named."""
    if not model:
        return None
    # What stands before the last slash is the server or the library that it was called through.
    *before, name = model.lower().split("/")
    if name.startswith(_SHORT):
        return "openai"
    for family, provider in _FAMILIES:
        if family in name:
            return provider
    return next((provider for provider in ("anthropic", "google") if provider in before), "other")
