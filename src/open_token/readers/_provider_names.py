"""Which provider of the spec's list a framework's own name for it, or the name of a model, belongs to."""

_NAMES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("openai", ("openai", "azure")),
    ("anthropic", ("anthropic", "claude")),
    ("google", ("google", "gcp", "gemini", "vertex")),
    ("meta", ("meta", "llama")),
)
_MODELS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("openai", ("gpt", "o1", "o3", "o4", "chatgpt", "codex", "ft:gpt", "computer-use")),
    ("anthropic", ("claude", "anthropic.claude", "us.anthropic.claude", "eu.anthropic.claude")),
    ("google", ("gemini", "gemma")),
    ("meta", ("llama", "meta-llama", "meta.llama")),
)


def provider_of(name: str | None, model: str | None = None) -> str | None:
    """The provider by its name, else by the model; `other` when it is not on the list, None when neither is known."""
    given = (name or "").lower()
    for provider, beginnings in _NAMES:
        if given.startswith(beginnings):
            return provider
    if model:
        last = model.lower().rpartition("/")[2]
        for provider, beginnings in _MODELS:
            if last.startswith(beginnings):
                return provider
    return "other" if given or model else None
