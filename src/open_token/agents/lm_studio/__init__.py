"""LM Studio: one JSON file a conversation, with versions of each message."""

from open_token.formats.definition import Agent

AGENT = Agent(
    name="lm_studio",
    title="LM Studio",
    checked="from descriptions only: public parsers and their fixtures, for versions 0.3 and 0.4",
    includes=(
        "prompts, answers, reasoning, tool calls and results, files, versions of messages as "
        "branches, models, system prompt, token counts"
    ),
    omits="the state of the window, texts as they were sent to the model",
    signatures=(b'"currentlySelected"',),
    places=(
        ".lmstudio/conversations/*.conversation.json",
        ".lmstudio/conversations/*/*.conversation.json",
        ".cache/lm-studio/conversations/*.conversation.json",
        ".cache/lm-studio/conversations/*/*.conversation.json",
    ),
    technical_fields=("preprocessed", "processed", "clientInput", "stepIdentifier"),
    is_experimental=True,
)
