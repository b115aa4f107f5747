"""One line of talk in a Claude Code session, the main one or a subagent's: who speaks, and what
each message cost."""

from collections import deque
from typing import Any

import msgspec

from open_token.agents.claude_code.records import Message, TokenCounts
from open_token.builder.draft import Draft
from open_token.formats.shared.anthropic_blocks import parse_usage
from open_token.model.document import Event, Usage, Visibility

_WINDOW = 256


class Account(msgspec.Struct):
    """The usage of one API message, which Claude Code spreads over several lines with a copy of it
    on each."""

    copy: TokenCounts | None
    usage: Usage | None
    place: int = -1
    """Where the first event of the message stands that is no thought; it carries the usage."""
    thought: Event | None = None
    stopped: bool = False
    told: bool = False
    """The usage was counted with lines that have long passed."""

    def renew(self, draft: Draft, copy: TokenCounts | None) -> None:
        """Another copy of the usage: the one with the most output holds, the last of equals."""
        self.copy = copy
        usage, known = usage_from(copy), self.usage or {}
        if self.told or not usage or usage.get("output_tokens", 0) < known.get("output_tokens", 0):
            return
        self.usage = usage
        if self.place >= 0:
            draft.set_usage(f"evt_{self.place + 1:06d}", usage)

    def close(self, draft: Draft) -> None:
        """No line of the message is left: when it was nothing but thought, the thought carries the
        usage."""
        if self.place < 0 and self.usage and self.thought is not None:
            draft.set_usage(self.thought, self.usage)


def usage_from(counts: TokenCounts | None) -> Usage | None:
    """What the export says of these counts."""
    if counts is None:
        return None
    fresh, written = counts.input_tokens, counts.cache_creation_input_tokens
    read, output = counts.cache_read_input_tokens, counts.output_tokens
    plain = (
        type(fresh) is type(written) is type(read) is type(output) is int
        and not counts.output_tokens_details
    )
    if not plain or counts.iterations or min(fresh, written, read, output) < 0:
        return parse_usage(msgspec.structs.asdict(counts))
    return {
        "input_tokens": fresh + written + read,
        "output_tokens": output,
        "cache_read_tokens": read,
        "cache_write_tokens": written,
    }


class Thread(msgspec.Struct):
    """Who speaks, where it stands and what is still open in one line of talk."""

    draft: Draft
    counted: set[int]
    """Messages whose lines have long passed, in all threads."""
    name: str = "assistant"
    agent_id: str | None = None
    span: str | None = None
    prompter: str = ""
    visibility: Visibility = "public"
    label: str = ""
    """What a place begins with: nothing in the main file, the file's name in another one."""
    depth: int = 0
    muted: bool = False
    """Its records are counted, not told."""
    root: str | None = None
    """The record that a first line without a parent follows."""
    records: int = 0
    last_ts: str | None = None
    speaker: str = ""
    """The model that spoke last: its actor, and its name below."""
    model: Any = None
    nameless: deque[str] = msgspec.field(default_factory=deque)
    """Open calls to which the runtime gave no id, oldest first."""
    accounts: dict[str, Account] = msgspec.field(default_factory=dict)

    def meet(self, ts: str | None) -> None:
        """A record of a subagent is next."""
        self.records += 1
        self.last_ts = ts or self.last_ts

    def asker(self) -> str:
        """The actor in the user's place: the person, or the agent that started this one."""
        if not self.prompter:
            self.prompter = self.draft.get_actor("human", "user")
        return self.prompter

    def speak(self, model: Any) -> str:
        """The actor of a model."""
        name = model if isinstance(model, str) else ""
        provider = "anthropic" if not name or "claude" in name else None
        self.model = model
        self.speaker = self.draft.get_actor(
            "model", self.name, provider=provider, model=name or None, instance_id=self.agent_id
        )
        return self.speaker

    def account(self, message: Message) -> Account:
        """The account of the message that a line belongs to."""
        name, copy = message.id, message.usage
        if type(name) is not str:
            return Account(copy, usage_from(copy))
        known = self.accounts.get(name)
        if known is not None:
            if copy != known.copy:
                known.renew(self.draft, copy)
            return known
        told = hash(name) in self.counted
        known = self.accounts[name] = Account(copy, None if told else usage_from(copy), told=told)
        if len(self.accounts) > _WINDOW:
            self._close(next(iter(self.accounts)))
        return known

    def _close(self, name: str) -> None:
        self.accounts.pop(name).close(self.draft)
        self.counted.add(hash(name))

    def finish(self) -> None:
        """No line is left."""
        for name in list(self.accounts):
            self._close(name)
