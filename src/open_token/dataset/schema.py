"""The Arrow schemas of a dataset, one for each table of each profile.

Columns are only ever added, with a new SCHEMA_VERSION. Text columns are `large_string`, because a
row group may hold more than 2 GiB of text.
"""

import pyarrow as pa

from open_token.dataset import SCHEMA_VERSION

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

# What every profile says about a conversation.
_FACTS = [
    pa.field("content_hash", _TEXT, nullable=False),
    pa.field("conversation_id", _TEXT, nullable=False),
    pa.field("title", _TEXT),
    pa.field("runtime", _TEXT, nullable=False),
    pa.field("runtime_version", _TEXT),
    pa.field("provider", _TEXT),
    pa.field("models", pa.list_(_TEXT)),
    pa.field("started_at", _TEXT),
    pa.field("ended_at", _TEXT),
    pa.field("cwd", _TEXT),
    pa.field("git_branch", _TEXT),
    pa.field("event_count", _COUNT),
    pa.field("prompt_count", _COUNT),
    pa.field("call_count", _COUNT),
    pa.field("failed_call_count", _COUNT),
    pa.field("missing_result_count", _COUNT),
    pa.field("subagent_count", _COUNT),
    pa.field("abandoned_branch_count", _COUNT),
    pa.field("compaction_count", _COUNT),
    *(pa.field(name, _COUNT) for name in _TOKENS),
    pa.field("cost_usd", pa.float64()),
    pa.field("characters", _COUNT),
    pa.field("reward", pa.float64()),
    pa.field("success", pa.bool_()),
    pa.field("error", _TEXT),
    pa.field("interrupted", pa.bool_()),
    pa.field("truncated", pa.bool_()),
    pa.field("labels", _TEXT),
    pa.field("fidelity", pa.float64()),
    pa.field("omissions", _TEXT),
    pa.field("redaction", _TEXT),
    pa.field("redaction_notes", pa.list_(_TEXT)),
    pa.field("source", _TEXT),
    pa.field("source_root", _TEXT),
    pa.field("open_token_version", _TEXT),
]
FACT_NAMES = tuple(field.name for field in _FACTS)

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
