"""Tells what OpenHands logged of its calls of a model, each of which repeats all that was said
before."""

from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.openai_chat import reader as chat_reader
from open_token.formats.openai_responses import reader as responses_reader
from open_token.sources.source import Source


def read(source: Source, draft: Draft) -> None:
    """Tell the conversation to the draft, in source order; the calls are in a dialect of OpenAI."""
    first = source.sample[0]
    dialect = chat_reader if isinstance(first.get("messages"), list) else responses_reader
    dialect.read(source, draft)
    draft.conversation["source_runtime"] = "cli"
    calls = cost = latency = 0.0
    for _, record in source.records():
        if isinstance(record, dict):
            calls += 1
            cost += _number(record.get("cost"))
            latency += _number(record.get("latency_sec"))
    data = {"kind": "cost", "calls": int(calls), "cost_usd": cost, "latency_sec": latency}
    draft.add_annotation(data, actor=draft.get_actor("system", "OpenHands"))


def _number(value: Any) -> float:
    return float(value) if type(value) in (int, float) and abs(value) < 2**53 else 0.0
