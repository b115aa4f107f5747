"""Grok CLI (Grok Build): the chat history as the model sees it, with the files in its folder."""

from open_token.formats.definition import Agent

AGENT = Agent(
    name="grok_cli",
    title="Grok CLI (Grok Build)",
    checked=(
        "a chat history of August 2026 (with trimmed values), chats of version 1.0.41 with the "
        "files in their folder"
    ),
    includes=(
        "system prompts, prompts with the text injected around them, answers, reasoning summaries, "
        "tool calls and results, searches of the provider, times and failures of tools and usage "
        "of turns from the log of updates"
    ),
    omits=(
        "encrypted reasoning, model fingerprints, output files in the folder, messages that a "
        "compaction removed from the file"
    ),
    signatures=(
        b'"prompt_index"',
        b'"synthetic_reason"',
        b'"model_id"',
        b'{"type":"system"',
        b'{"type": "system"',
    ),
    places=("$GROK_HOME/sessions/*/*/chat_history.jsonl", ".grok/sessions/*/*/chat_history.jsonl"),
)
