"""Jan: a folder a thread, with one message a line and a file about the thread."""

from open_token.formats.definition import Agent

AGENT = Agent(
    name="jan",
    title="Jan",
    checked="from descriptions only: its source code of 2026, for `messages.jsonl` and `thread.json`",
    includes=(
        "prompts, answers, reasoning, tool calls and results, images, audio, models, system "
        "prompt, title, errors"
    ),
    omits="nothing",
    signatures=(b'"thread.message"',),
    places=(
        "Library/Application Support/Jan/data/threads/*/messages.jsonl",
        ".config/Jan/data/threads/*/messages.jsonl",
        ".local/share/Jan/data/threads/*/messages.jsonl",
        "AppData/Roaming/Jan/data/threads/*/messages.jsonl",
        "jan/threads/*/messages.jsonl",
    ),
    part_files=("thread.json",),
    is_experimental=True,
)
