"""The state of one thread in a Claude Code session, the main one or a subagent's."""

from collections import deque
from typing import Any

import msgspec

from open_token.agents.claude_code.records import Message, TokenCounts
from open_token.builder.draft import Draft
from open_token.formats.shared.anthropic_blocks import parse_usage
from open_token.model.document import Event, Usage, Visibility

_MAX_OPEN_MESSAGES = 256


class MessageUsage(msgspec.Struct):
    """The usage of one API message.

    Claude Code writes a message as several lines, one for each block, with a copy of the usage on
    each. The copies may differ: those written while the answer streams have fewer output tokens.
    """

    counts: TokenCounts | None
    """The last copy."""
    usage: Usage | None
    position: int = -1
    """Where the first event of the message is that is no reasoning; it carries the usage."""
    reasoning: Event | None = None
    has_stop: bool = False
    """Whether the unusual stop reason of the message was reported."""
    is_counted: bool = False
    """Whether the usage was exported with earlier lines, too far back to remember more."""

    def update(self, draft: Draft, counts: TokenCounts | None) -> None:
        """Take another copy: the one with most output tokens wins, the last among equals."""
        self.counts = counts
        usage = to_usage(counts)
        if self.is_counted or not usage:
            return
        known = self.usage or {}
        if usage.get("output_tokens", 0) < known.get("output_tokens", 0):
            return
        self.usage = usage
        if self.position >= 0:
            draft.set_usage(f"evt_{self.position + 1:06d}", usage)

    def close(self, draft: Draft) -> None:
        """End the message: if it had nothing but reasoning, that carries the usage."""
        if self.position < 0 and self.usage and self.reasoning is not None:
            draft.set_usage(self.reasoning, self.usage)


def to_usage(counts: TokenCounts | None) -> Usage | None:
    """Return the API's counts in the terms of an export."""
    if counts is None:
        return None
    fresh = counts.input_tokens
    written = counts.cache_creation_input_tokens
    read = counts.cache_read_input_tokens
    output = counts.output_tokens
    is_usual = (
        type(fresh) is type(written) is type(read) is type(output) is int
        and not counts.output_tokens_details
        and not counts.iterations
        and min(fresh, written, read, output) >= 0
    )
    if not is_usual:
        return parse_usage(msgspec.structs.asdict(counts))
    return {
        "input_tokens": fresh + written + read,
        "output_tokens": output,
        "cache_read_tokens": read,
        "cache_write_tokens": written,
    }


class Thread(msgspec.Struct):
    """Who speaks in a thread, where its events belong and which calls and messages are open."""

    draft: Draft
    counted_messages: set[int]
    """Hashes of the ids of messages that were closed, shared by all threads."""
    name: str = "assistant"
    agent_id: str | None = None
    span: str | None = None
    prompter: str = ""
    visibility: Visibility = "public"
    label: str = ""
    """The prefix of positions in notes: empty in the main file, else the name of the file."""
    depth: int = 0
    is_muted: bool = False
    """Whether its records are counted, not exported."""
    root: str | None = None
    """The record that a first line without a parent follows."""
    records: int = 0
    last_ts: str | None = None
    speaker: str = ""
    """The actor of the model that answered last."""
    model: Any = None
    """The name of that model."""
    calls_without_id: deque[str] = msgspec.field(default_factory=deque)
    """Keys of open calls to which the runtime gave no id, oldest first."""
    message_usages: dict[str, MessageUsage] = msgspec.field(default_factory=dict)

    def count_record(self, ts: str | None) -> None:
        """Count a record of a subagent."""
        self.records += 1
        self.last_ts = ts or self.last_ts

    def get_prompter(self) -> str:
        """Return the actor of user messages: the person, or the agent that started this one."""
        if not self.prompter:
            self.prompter = self.draft.get_actor("human", "user")
        return self.prompter

    def set_model(self, model: Any) -> str:
        """Make a model the speaker and return its actor."""
        name = model if isinstance(model, str) else ""
        provider = "anthropic" if not name or "claude" in name else None
        self.model = model
        self.speaker = self.draft.get_actor(
            "model", self.name, provider=provider, model=name or None, instance_id=self.agent_id
        )
        return self.speaker

    def get_usage(self, message: Message) -> MessageUsage:
        """Return the usage of the message that a line belongs to."""
        message_id = message.id
        counts = message.usage
        if type(message_id) is not str:
            return MessageUsage(counts, to_usage(counts))
        known = self.message_usages.get(message_id)
        if known is not None:
            if counts != known.counts:
                known.update(self.draft, counts)
            return known
        is_counted = hash(message_id) in self.counted_messages
        usage = None if is_counted else to_usage(counts)
        known = MessageUsage(counts, usage, is_counted=is_counted)
        self.message_usages[message_id] = known
        # Bounds memory: the lines of a message are close together.
        if len(self.message_usages) > _MAX_OPEN_MESSAGES:
            self._close_message(next(iter(self.message_usages)))
        return known

    def _close_message(self, message_id: str) -> None:
        self.message_usages.pop(message_id).close(self.draft)
        self.counted_messages.add(hash(message_id))

    def finish(self) -> None:
        """Close all messages at the end of the thread."""
        for message_id in list(self.message_usages):
            self._close_message(message_id)
