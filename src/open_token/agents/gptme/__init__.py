"""gptme: chat messages, one a line; tools are called in the text of the answers."""

from open_token.formats.definition import Agent

AGENT = Agent(
    name="gptme",
    title="gptme",
    checked=(
        "0.35.1, with a scripted model and calls as Markdown and as tool calls; from descriptions "
        "only: attached files, costs"
    ),
    includes=(
        "messages, attached files by name, model, token counts, cost, timings; tool calls stay in "
        "the text of answers, and outputs are messages of the system, as gptme stores them; times "
        "without a zone as text"
    ),
    omits="hashes of attached files, branches in files of their own",
    signatures=(b'"timestamp"',),
    places=(
        "$GPTME_LOGS_HOME/*/conversation.jsonl",
        ".local/share/gptme/logs/*/conversation.jsonl",
        "Library/Application Support/gptme/logs/*/conversation.jsonl",
        "AppData/Local/gptme/logs/*/conversation.jsonl",
    ),
    technical_fields=("file_hashes",),
)
