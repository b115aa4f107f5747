"""LangChain: messages as its serializers write them, chunks of a stream, and the runs that
LangSmith keeps."""

from importlib import import_module
from typing import Any

from open_token.draft import Draft
from open_token.model import Found
from open_token.readers._langchain_shapes import is_akin, is_message, is_payload, is_run, is_state
from open_token.source import Source

TITLE = "LangChain messages and LangSmith runs"
PLACES: tuple[str, ...] = ()
SEEN = "messages and chunks of LangChain 1.4 in every shape, LangSmith payloads of the Python SDK 0.1 to 0.14"
CARRIES = "messages, thoughts, calls, results, usage; of runs: models, tools, retrievers, errors, each message once"
LEAVES = "inner chains, parsers, prompts, embeddings, timings and settings of runs"
ASIDE = ("dotted_order",)
"""Fields that nobody said."""


def sniff(source: Source) -> bool:
    """Whether it is messages of LangChain, or runs of LangSmith."""
    records = _records(source)
    if not records or not all(isinstance(record, dict) for record in records):
        return False
    if all(is_run(record) or is_payload(record) for record in records):
        return True
    if len(records) == 1 and is_state(records[0]):
        return True
    return all(is_akin(record) for record in records) and any(
        is_message(record, surely=True) for record in records
    )


def _records(source: Source) -> list[Any]:
    sample = source.sample
    if source.shape == "document" and sample and isinstance(sample[0], list):
        sample = sample[0][:512]
        if len(sample) == 1 and isinstance(sample[0], list):
            sample = sample[0][:512]
    return sample


def conversations(source: Source) -> list[Found]:
    """The threads and traces of the runs; messages are one conversation."""
    found: list[Found] = _part(source).conversations(source)
    return found


def belongs(source: Source, at: str, value: Any) -> str | None:
    """The conversation of a run."""
    owner: str | None = _part(source).belongs(source, at, value)
    return owner


def read(source: Source, draft: Draft) -> None:
    """Tell the conversation; what that takes is loaded only now."""
    _part(source).read(source, draft)


def _part(source: Source) -> Any:
    first = next(iter(_records(source)), None)
    name = (
        "_langsmith"
        if isinstance(first, dict) and (is_run(first) or is_payload(first))
        else "_langchain"
    )
    return import_module(f"open_token.readers.{name}")
