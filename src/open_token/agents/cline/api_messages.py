"""The messages that Cline sent to the API and got back, as draft verbs."""

import re
from collections import deque
from typing import Any, NamedTuple

from open_token.builder.draft import Draft
from open_token.formats.shared.anthropic_blocks import (
    add_answer,
    add_result_block,
    get_block_type,
    parse_content,
    unpack_block,
)
from open_token.formats.shared.fields import as_text, pick_fields
from open_token.formats.shared.providers import ProviderTracker
from open_token.formats.shared.token_usage import build_usage
from open_token.model.document import Event, Usage

Block = dict[str, Any]
_ANSWERS = {
    "attempt_completion": "result",
    "plan_mode_respond": "response",
    "act_mode_respond": "response",
    "ask_followup_question": "question",
}
"""Calls that are a way to speak to the person, and the argument that holds the words."""


class Outcome(NamedTuple):
    """A result that stands as text: of which tool, where its output begins, whether the tool
    ran."""

    tool: str
    start: int
    ran: bool = True


class Talk:
    """Tells messages; results are found by the order of calls, since they stand as plain text in
    the person's place."""

    def __init__(self, draft: Draft, client: str, typed: set[str]) -> None:
        self._draft = draft
        self._client = client
        self._typed = typed
        self.providers = ProviderTracker()
        self._pending: dict[str, deque[str]] = {}
        """The calls of the last answer in order, by their tools, and all of them under no name."""
        self._heading: tuple[str | None, str] | None = None
        """The call whose result follows in blocks of its own (None where the call is text), and the
        heading over it."""
        self._parts: list[Any] = []
        self._settings: dict[str, Any] = {}
        self._model: dict[str, Any] = {}
        self._ts: str | None = None
        """Of the answer that is told."""

    def user(self, content: Any, ts: str | None) -> None:
        """A turn of the person: results, what was typed, what the client put in."""
        for block in _blocks(content):
            kind, text = (
                get_block_type(block),
                block.get("text") if isinstance(block, dict) else None,
            )
            if kind == "tool_result":
                self._flush(ts)
                self._native_result(block, ts)
            elif kind == "text" and isinstance(text, str):
                self._text(text, ts)
            elif self._heading is not None:
                self._parts.append(block)
            else:
                self._draft.add_message(
                    "user", [unpack_block(block)], self._person(), ts=ts, visibility="public"
                )
        self._flush(ts)

    def _person(self) -> str:
        return self._draft.get_actor("human", "user")

    def _text(self, text: str, ts: str | None) -> None:
        outcome = outcome_of(text)
        if outcome is None and self._heading is not None and not is_put_in(text):
            self._parts.append({"type": "text", "text": text})
            return
        self._flush(ts)
        key = self._call_of(outcome.tool) if outcome else None
        if outcome and outcome.ran and not text[outcome.start :].strip():
            self._heading = (key, text.strip())
        elif outcome and key:
            self._draft.add_tool_result(
                key, text, ts=ts, facts=dict(facts_of(text, outcome)) or None
            )
            self._answer(answered_in(text, outcome), ts)
        else:
            self._say(text, ts, outcome)

    def _say(self, text: str, ts: str | None, outcome: Outcome | None = None) -> None:
        """A text that answers no call: what was typed is public, and what the model got instead
        stands beside it."""
        words = typed_in(text) if outcome is None else None
        if (
            words is None
            and outcome is None
            and (text.strip() in self._typed or not is_put_in(text))
        ):
            words = text
        if words is None:
            self._draft.add_message("user", text, self._client, ts=ts, visibility="internal")
            self._answer(answered_in(text, outcome) if outcome else None, ts)
            return
        said = self._answer(words, ts)
        if said is not None and words != text:
            self._draft.add_annotation({"kind": "sent_text", "text": text}, parent=said, ts=ts)

    def _answer(self, words: str | None, ts: str | None) -> Event | None:
        return (
            None if words is None else self._draft.add_message("user", words, self._person(), ts=ts)
        )

    def _call_of(self, tool: str) -> str | None:
        """The key of the call that the next result is of: the first of that tool, else the first of
        all."""
        for name in (tool, ""):
            waiting = self._pending.get(name, deque())
            while waiting:
                if self._draft.is_call_open(key := waiting.popleft()):
                    return key
        return None

    def _flush(self, ts: str | None) -> None:
        """The blocks under a heading are a result."""
        if self._heading is None:
            return
        (key, heading), parts = self._heading, self._parts
        self._heading, self._parts = None, []
        outcome = outcome_of(heading)
        if key is None or outcome is None:
            self._loose(heading, parts, outcome, ts)
            return
        output = parse_content(parts) if parts else ""
        told = output if isinstance(output, str) else ""
        facts = {"heading": heading, **facts_of(f"{heading}{told}", outcome)}
        self._draft.add_tool_result(key, output, ts=ts, facts=facts)
        self._answer(answered_in(f"{heading}{told}", outcome), ts)

    def _loose(
        self, heading: str, parts: list[Any], outcome: Outcome | None, ts: str | None
    ) -> None:
        """The result of a call that is text itself: the client's words, but for what the person
        answered."""
        self._draft.add_message("user", heading, self._client, ts=ts, visibility="internal")
        for part in parts:
            words = parse_content([part])
            if (
                isinstance(words, str)
                and outcome
                and answered_in(f"{heading}{words}", outcome) is not None
            ):
                self._say(words, ts)
            else:
                self._draft.add_message("user", words, self._client, ts=ts, visibility="internal")

    def _native_result(self, block: Block, ts: str | None) -> None:
        add_result_block(self._draft, block, ts=ts, span=None)
        output = parse_content(block.get("content"))
        if isinstance(output, str) and (outcome := outcome_of(output)):
            self._answer(answered_in(output, outcome), ts)

    def assistant(
        self, message: dict[str, Any], request: dict[str, Any], ts: str | None, place: str
    ) -> None:
        """An answer with its calls; calls that older builds write as XML stay in its text."""
        about = message.get("modelInfo")
        self._model = about if isinstance(about, dict) else self._model
        self._set(self._model, ts)
        actor = self.model_actor()
        self._pending.clear()
        self._ts = ts
        add_answer(
            self._draft,
            [
                block
                for block in _blocks(message.get("content"))
                if not self._reasoned(block, actor, ts)
            ],
            actor,
            ts=ts,
            usage=_usage(message.get("metrics"), request),
            group=place,
            called=self._called,
        )

    def model_actor(self) -> str:
        """The actor of the model that answers."""
        model, named = as_text(self._model.get("modelId")), as_text(self._model.get("providerId"))
        provider = self.providers.add_model(named, model)
        return self._draft.get_actor("model", "assistant", provider=provider, model=model)

    def _set(self, model: dict[str, Any], ts: str | None) -> None:
        facts = {"mode": as_text(model.get("mode")), "model": as_text(model.get("modelId"))}
        if (now := pick_fields(facts, *facts)) and now != self._settings:
            self._settings = now
            self._draft.add_annotation({"kind": "settings", **now}, actor=self._client, ts=ts)

    def _reasoned(self, block: Any, actor: str, ts: str | None) -> bool:
        """Reasoning as other providers give it, which Roo Code keeps under their name for it."""
        if get_block_type(block) != "reasoning":
            return False
        words = as_text(block.get("text")) or "\n\n".join(
            part["text"]
            for part in _blocks(block.get("summary"))
            if isinstance(part, dict) and as_text(part.get("text"))
        )
        self._draft.add_reasoning(
            words or None, actor, ts=ts, summary=bool(words and not as_text(block.get("text")))
        )
        return True

    def _called(self, key: str, block: Block) -> None:
        """A call; where it is the way in which the model speaks to the person, its words are said
        too."""
        tool, given = as_text(block.get("name")) or "tool", block.get("input")
        for name in (tool, ""):
            self._pending.setdefault(name, deque()).append(key)
        words = given.get(_ANSWERS.get(tool, "")) if isinstance(given, dict) else None
        if isinstance(words, str) and words:
            call = f"evt_{self._draft.count:06d}"
            self._draft.add_message(
                "assistant", words, self.model_actor(), ts=self._ts, parent=call
            )


def _blocks(content: Any) -> list[Any]:
    return (
        content
        if isinstance(content, list)
        else [{"type": "text", "text": content}]
        if content
        else []
    )


def _usage(metrics: Any, request: dict[str, Any]) -> Usage | None:
    """What an answer took: the panel tells reads and writes of the cache apart, the message only
    their sum."""
    tokens = metrics.get("tokens") if isinstance(metrics, dict) else None
    known = tokens.get("completion") if isinstance(tokens, dict) else None
    names = ("tokensIn", "tokensOut", "cacheReads", "cacheWrites")
    fresh, output, read, written = (request.get(name) for name in names)
    if type(fresh) is int and type(output) is int and known in (None, output):
        parts = [part for part in (fresh, read, written) if type(part) is int and part >= 0]
        return build_usage(
            input_tokens=sum(parts),
            output_tokens=output,
            cache_read_tokens=read,
            cache_write_tokens=written,
        )
    if not isinstance(tokens, dict):
        return None
    parts = [
        part
        for part in (tokens.get("prompt"), tokens.get("cached"))
        if type(part) is int and part >= 0
    ]
    return build_usage(
        input_tokens=sum(parts) if parts else None, output_tokens=tokens.get("completion")
    )


_WRAPPERS = ("task", "feedback", "answer", "user_message")
_PUT_IN = (
    "<environment_details>",
    "<explicit_instructions",
    "<hook_context",
    "<file_content",
    "<url_content",
    "# task_progress",
    "# TODO LIST",
    "# todo",
    "[ERROR]",
    "[NOTICE]",
    "[Note]",
    "[TASK RESUMPTION]",
    "[TASK ABANDONED]",
    "[Response interrupted",
    "Task resumption",
    "Note: ",
)
_RESULT = re.compile(r"\s*\[([A-Za-z_][\w.-]*)(?: for .*?)?\] Result:", re.DOTALL)
_REFUSED = re.compile(r"\s*Tool \[([A-Za-z_][\w.-]*)\] was not executed")
_WITH_WORDS = (
    "The user denied this operation and provided",
    "The user approved this operation and provided",
)
_ASKING = frozenset(
    "attempt_completion ask_followup_question plan_mode_respond act_mode_respond new_task condense".split()
)
_DENIED = "The user denied this operation"


def outcome_of(text: str) -> Outcome | None:
    """What a text says of a tool; None when it is no result. The heading may quote a command of
    many lines."""
    if found := _RESULT.match(text):
        return Outcome(found[1], found.end())
    if found := _REFUSED.match(text):
        return Outcome(found[1], 0, ran=False)
    return None


def is_put_in(text: str) -> bool:
    """Whether the client wrote it on its own, with nothing of the person's in it."""
    return text.lstrip().startswith(_PUT_IN) and typed_in(text) is None


def typed_in(text: str) -> str | None:
    """What the person typed, out of the wrapper around it; None when there is no wrapper."""
    if text.lstrip().startswith("<environment_details>"):
        return None
    for name in _WRAPPERS:
        start = text.find(f"<{name}>")
        end = text.rfind(f"</{name}>")
        if 0 <= start < end:
            return text[start + len(name) + 2 : end].strip("\r\n")
    return None


def answered_in(text: str, outcome: Outcome) -> str | None:
    """What the person said in a result: an answer to a question, or a word to a tool they were
    asked about."""
    output = text[outcome.start :].lstrip()
    if outcome.tool in _ASKING or output.startswith(_WITH_WORDS):
        return typed_in(output)
    return None


def facts_of(text: str, outcome: Outcome) -> dict[str, bool]:
    """What a result tells beside its output."""
    if not outcome.ran:
        return {"not_executed": True}
    return {"rejected": True} if text[outcome.start :].lstrip().startswith(_DENIED) else {}
