"""Rows of chat datasets: fine-tuning files, agent trajectories, preference pairs; one row is one
conversation."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="dataset_rows",
    title="Chat datasets (fine-tuning, trajectories, preference pairs)",
    checked="the columns of OpenAI fine-tuning files, SWE-smith, and chat and agent datasets of Hugging Face",
    includes="every message, calls and results, both answers of a preference pair, the names of tools, all other columns as labels",
    omits="the descriptions of tools",
    holds_several=True,
    is_general=True,
    signatures=(
        b'"messages"',
        b'"conversations"',
        b'"conversation"',
        b'"completion"',
        b'"chosen"',
        b'"preferred_output"',
    ),
)
