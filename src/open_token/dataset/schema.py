"""The Arrow schemas of a dataset, one for each table of each profile.

Columns are only ever added, with a new SCHEMA_VERSION. Text columns are `large_string`, because a
row group may hold more than 2 GiB of text.
"""

from types import NoneType, UnionType
from typing import Any, get_args, get_type_hints

import pyarrow as pa

from open_token.dataset import SCHEMA_VERSION
from open_token.dataset.conversation import Facts

_TEXT = pa.string()
_LONG_TEXT = pa.large_string()
_COUNT = pa.int64()
_TOKENS = (
    "input_tokens",
    "output_tokens",
    "reasoning_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
)

_TYPES: dict[Any, pa.DataType] = {
    str: _TEXT,
    int: _COUNT,
    float: pa.float64(),
    bool: pa.bool_(),
    list[str]: pa.list_(_TEXT),
}
_REQUIRED = ("content_hash", "conversation_id", "runtime")


def _derive_fact(name: str, annotation: Any) -> pa.Field:
    """Return the column of a fact; None in its type has no place in a column."""
    kinds = [kind for kind in get_args(annotation) if kind is not NoneType]
    kind = kinds[0] if isinstance(annotation, UnionType) else annotation
    return pa.field(name, _TYPES[kind], nullable=name not in _REQUIRED)


# What every profile says about a conversation.
_FACTS = [_derive_fact(name, annotation) for name, annotation in get_type_hints(Facts).items()]
FACT_NAMES = Facts.__struct_fields__

CONVERSATIONS = pa.schema(
    [
        *_FACTS,
        # The frame of the document as JSON; with the events it is the whole document.
        pa.field("exported_at", _TEXT),
        pa.field("conversation", _LONG_TEXT, nullable=False),
        pa.field("participants", _LONG_TEXT, nullable=False),
        pa.field("integrity", _LONG_TEXT),
    ],
    metadata={"schema": f"{SCHEMA_VERSION}/conversations"},
)

EVENTS = pa.schema(
    [
        pa.field("content_hash", _TEXT, nullable=False),
        pa.field("conversation_id", _TEXT, nullable=False),
        pa.field("seq", _COUNT, nullable=False),
        pa.field("id", _TEXT),
        pa.field("ts", _TEXT),
        pa.field("type", _TEXT),
        pa.field("actor_id", _TEXT),
        pa.field("visibility", _TEXT),
        pa.field("role", _TEXT),
        pa.field("mime", _TEXT),
        pa.field("text", _LONG_TEXT),
        pa.field("data", _LONG_TEXT),
        pa.field("tool_name", _TEXT),
        pa.field("parent_id", _TEXT),
        pa.field("replies_to", _TEXT),
        pa.field("call_id", _TEXT),
        pa.field("span_id", _TEXT),
        *(pa.field(name, _COUNT) for name in _TOKENS),
        # The whole event as JSON, only where the other columns do not give it back exactly.
        pa.field("raw", _LONG_TEXT),
    ],
    metadata={"schema": f"{SCHEMA_VERSION}/events"},
)

# The columns that Hugging Face `datasets` gives agent traces, and ours behind them.
_TRACE = [
    pa.field("harness", _TEXT),
    pa.field("session_id", _TEXT),
    pa.field("prompt", _TEXT),
    pa.field("messages", pa.list_(pa.json_())),
    pa.field("tools", pa.list_(pa.json_())),
    pa.field("metadata", pa.json_()),
    pa.field("sent_at", _TEXT),
    pa.field("num_user_messages", _COUNT),
    pa.field("num_tool_calls", _COUNT),
    pa.field("trace", pa.json_()),
    pa.field("file_path", _TEXT),
]
HF = pa.schema([*_TRACE, *_FACTS], metadata={"schema": f"{SCHEMA_VERSION}/hf"})

# The columns of an Inspect Scout transcript database; every further column is metadata there.
_TRANSCRIPT = [
    pa.field("transcript_id", _LONG_TEXT, nullable=False),
    pa.field("source_type", _LONG_TEXT),
    pa.field("source_id", _LONG_TEXT),
    pa.field("source_uri", _LONG_TEXT),
    pa.field("date", _LONG_TEXT),
    pa.field("task_set", _LONG_TEXT),
    pa.field("task_id", _LONG_TEXT),
    pa.field("task_repeat", _COUNT),
    pa.field("agent", _LONG_TEXT),
    pa.field("agent_args", _LONG_TEXT),
    pa.field("model", _LONG_TEXT),
    pa.field("model_options", _LONG_TEXT),
    pa.field("score", _LONG_TEXT),
    pa.field("score_explanation", _LONG_TEXT),
    pa.field("success", pa.bool_()),
    pa.field("message_count", _COUNT),
    pa.field("total_time", pa.float64()),
    pa.field("total_tokens", _COUNT),
    pa.field("error", _LONG_TEXT),
    pa.field("limit", _LONG_TEXT),
    pa.field("trust_content", pa.bool_()),
    pa.field("messages", _LONG_TEXT),
    pa.field("events", _LONG_TEXT),
    pa.field("timelines", _LONG_TEXT),
    pa.field("events_data", _LONG_TEXT),
]
_TRANSCRIPT_NAMES = {field.name for field in _TRANSCRIPT}
SCOUT = pa.schema(
    [*_TRANSCRIPT, *(field for field in _FACTS if field.name not in _TRANSCRIPT_NAMES)],
    metadata={"schema": f"{SCHEMA_VERSION}/scout"},
)

TABLES: dict[str, dict[str, pa.Schema]] = {
    "events": {"conversations": CONVERSATIONS, "events": EVENTS},
    "hf": {"data": HF},
    "scout": {"": SCOUT},
}
"""The tables of each profile by the name of their folder; '' is the dataset itself."""
