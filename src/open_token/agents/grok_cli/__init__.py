"""Grok CLI (Grok Build): the history of a chat as the model sees it, with what lies in its folder
beside it."""

from open_token.formats.definition import Agent

AGENT = Agent(
    name="grok_cli",
    title="Grok CLI (Grok Build)",
    checked="a chat history of August 2026 (with trimmed values); chats of 1.0.41 with what lies beside them",
    includes="the system prompt, prompts with what was put around them, answers, summaries of reasoning, calls and results, the provider's own searches; times and failures of tools, tokens of turns where the log of updates lies beside it",
    omits="sealed reasoning, fingerprints of models, files of output beside the chat; what a compaction took out of the file",
    signatures=(
        b'"prompt_index"',
        b'"synthetic_reason"',
        b'"model_id"',
        b'{"type":"system"',
        b'{"type": "system"',
    ),
    places=("$GROK_HOME/sessions/*/*/chat_history.jsonl", ".grok/sessions/*/*/chat_history.jsonl"),
)
