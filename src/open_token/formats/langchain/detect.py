"""LangChain: messages as its serializers write them, chunks of a stream, and the runs that
LangSmith keeps."""

from typing import Any

from open_token.formats.langchain.shapes import is_akin, is_message, is_payload, is_run, is_state
from open_token.sources.source import Source


def sniff(source: Source) -> bool:
    """Whether it is messages of LangChain, or runs of LangSmith."""
    records = first_records(source)
    if not records or not all(isinstance(record, dict) for record in records):
        return False
    if all(is_run(record) or is_payload(record) for record in records):
        return True
    if len(records) == 1 and is_state(records[0]):
        return True
    return all(is_akin(record) for record in records) and any(
        is_message(record, surely=True) for record in records
    )


def first_records(source: Source) -> list[Any]:
    sample = source.sample
    if source.shape == "document" and sample and isinstance(sample[0], list):
        sample = sample[0][:512]
        if len(sample) == 1 and isinstance(sample[0], list):
            sample = sample[0][:512]
    return sample
