"""Read LangChain messages or LangSmith runs, whichever the input is."""

from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.langchain import langsmith, message_lists
from open_token.formats.langchain.detect import first_records
from open_token.formats.langchain.shapes import is_payload, is_run
from open_token.model.document import Found
from open_token.sources.source import Source


def read(source: Source, draft: Draft) -> None:
    """Read the conversation into the draft."""
    if _has_runs(source):
        langsmith.read(source, draft)
    else:
        message_lists.read(source, draft)


def list_conversations(source: Source) -> list[Found]:
    """List the threads and traces of runs; messages are one conversation."""
    if _has_runs(source):
        return langsmith.conversations(source)
    return message_lists.conversations(source)


def find_owner(source: Source, at: str, value: Any) -> str | None:
    """Return the id of the conversation that a run belongs to."""
    if _has_runs(source):
        return langsmith.belongs(source, at, value)
    return message_lists.belongs(source, at, value)


def _has_runs(source: Source) -> bool:
    first = next(iter(first_records(source)), None)
    return isinstance(first, dict) and (is_run(first) or is_payload(first))
