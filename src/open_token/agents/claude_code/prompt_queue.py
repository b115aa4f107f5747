"""Prompts that were typed while the model worked.

Claude Code queues them: an `enqueue` record holds the text. It is then delivered in one of several
ways. `dequeue` makes a user record of it, or of several at once; `remove` gives it to the running
model, which newer versions record as a `queued_command` attachment and older ones not at all;
`popAll` takes it back for editing. Records do not refer to each other, so the text decides.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from open_token.agents.claude_code.records import get_text
from open_token.agents.claude_code.user_text import split_user_text
from open_token.builder.draft import Draft

_MAX_CANDIDATES = 64


class QueuedPrompt(msgspec.Struct):
    """A prompt in the queue, and where in the draft it was typed."""

    text: str
    position: int
    ts: str | None
    is_settled: bool = False
    """Whether another record holds the text."""


class PromptQueue:
    """The queued prompts; those that no other record holds are inserted where they were typed."""

    def __init__(self, draft: Draft, client: str) -> None:
        self._draft = draft
        self._client = client
        self._prompts: list[QueuedPrompt] = []
        self._by_first_line: dict[str, list[QueuedPrompt]] = {}
        self._enqueued: set[tuple[str, str | None]] = set()

    def read(self, record: dict[str, Any], get_person: Callable[[], str], ts: str | None) -> bool:
        """Read a queue operation; return False if it repeats an earlier record."""
        text = get_text(record, "content") or ""
        operation = record.get("operation")
        if not text.strip():
            return True
        if operation == "enqueue":
            # These records have no uuid by which a copy could be recognized.
            if (text, ts) in self._enqueued:
                return False
            self._enqueued.add((text, ts))
            self._add(QueuedPrompt(text.strip(), self._draft.count, ts))
        elif operation == "popAll":
            self.settle(text)
            data = {"kind": "withdrawn_prompt", "text": text}
            self._draft.add_annotation(data, actor=get_person(), ts=ts)
        return True

    def _add(self, prompt: QueuedPrompt) -> None:
        self._prompts.append(prompt)
        self._by_first_line.setdefault(_get_first_line(prompt.text, 0), []).append(prompt)

    def settle(self, text: str) -> None:
        """Settle the prompts that make up a text, joined by line breaks if they are several."""
        if not self._by_first_line:
            return
        text = text.strip()
        found: list[QueuedPrompt] = []
        place = 0
        while place < len(text):
            prompt = self._find_at(text, place, found)
            if prompt is None:
                return
            found.append(prompt)
            place += len(prompt.text)
            while place < len(text) and text[place].isspace():
                place += 1
        for prompt in found:
            prompt.is_settled = True
            line = _get_first_line(prompt.text, 0)
            self._by_first_line[line].remove(prompt)
            if not self._by_first_line[line]:
                del self._by_first_line[line]

    def _find_at(self, text: str, place: int, found: list[QueuedPrompt]) -> QueuedPrompt | None:
        """Return a prompt that stands at a place in a text and ends with a line or the text."""
        candidates = self._by_first_line.get(_get_first_line(text, place), [])
        # A bound for input that repeats one line thousands of times.
        for prompt in candidates[:_MAX_CANDIDATES]:
            end = place + len(prompt.text)
            is_whole = end == len(text) or text[end : end + 1] == "\n"
            is_new = all(prompt is not other for other in found)
            if is_whole and is_new and text.startswith(prompt.text, place):
                return prompt
        return None

    def finish(self, get_person: Callable[[], str]) -> None:
        """Insert what nothing else recorded, at the place and time at which it was typed."""
        for prompt in self._prompts:
            if prompt.is_settled:
                continue
            # Notices of the client, about background tasks, wait in the same queue.
            for origin, part in split_user_text(prompt.text):
                is_typed = origin in ("typed", "command")
                self._draft.insert_message(
                    prompt.position,
                    "user",
                    part,
                    get_person() if is_typed else self._client,
                    ts=prompt.ts,
                    visibility="public" if is_typed else "internal",
                )


def _get_first_line(text: str, place: int) -> str:
    end = text.find("\n", place)
    return text[place:] if end < 0 else text[place:end]
