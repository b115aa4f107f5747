"""Read the messages that Cline exchanged with the API, with tool results as blocks or as text."""

import re
from collections import deque
from typing import Any, NamedTuple

from open_token.agents.cline.ui_messages import parse_request_usage, sum_counts
from open_token.builder.draft import Draft
from open_token.formats.shared.anthropic_blocks import (
    add_answer,
    add_result_block,
    get_block_type,
    parse_content,
    unpack_block,
)
from open_token.formats.shared.fields import as_text, drop_nulls
from open_token.formats.shared.providers import ProviderTracker
from open_token.formats.shared.token_usage import build_usage
from open_token.model.document import Event, Usage

Block = dict[str, Any]

_SPEAKING_TOOLS = {
    "attempt_completion": "result",
    "plan_mode_respond": "response",
    "act_mode_respond": "response",
    "ask_followup_question": "question",
}
"""Tools by which the model speaks to the user, and the argument that holds the text."""
_ASKING_TOOLS = frozenset((*_SPEAKING_TOOLS, "new_task", "condense"))
"""Tools whose result holds an answer of the user."""
_PROMPT_TAGS = ("task", "feedback", "answer", "user_message")
_INJECTED_PREFIXES = (
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
# The heading may quote a command of many lines.
_RESULT_HEADING = re.compile(r"\s*\[([A-Za-z_][\w.-]*)(?: for .*?)?\] Result:", re.DOTALL)
_NOT_EXECUTED = re.compile(r"\s*Tool \[([A-Za-z_][\w.-]*)\] was not executed")
_DENIED = "The user denied this operation"
_FEEDBACK_PREFIXES = (
    "The user denied this operation and provided",
    "The user approved this operation and provided",
)


class TextResult(NamedTuple):
    """A tool result in plain text: the tool, where its output begins, whether the tool ran."""

    tool: str
    start: int
    ran: bool = True


class ApiMessageReader:
    """Reads API messages.

    Results that are plain text in user messages have no call id. They are matched with the calls
    of the last response by tool and order.
    """

    def __init__(self, draft: Draft, client: str, typed: set[str]) -> None:
        self._draft = draft
        self._client = client
        self._typed = typed
        self.providers = ProviderTracker()
        self._pending: dict[str, deque[str]] = {}
        """The calls of the last response by tool, and all of them under the empty name."""
        self._heading: str | None = None
        """The heading of a result whose output follows in blocks of its own."""
        self._heading_call: str | None = None
        """The call of that result; None where the call is text itself."""
        self._output: list[Any] = []
        self._settings: dict[str, Any] = {}
        self._model: dict[str, Any] = {}
        self._response_ts: str | None = None

    def read_user_message(self, content: Any, ts: str | None) -> None:
        """Read tool results, typed text, and text that the client added."""
        for block in _to_blocks(content):
            kind = get_block_type(block)
            text = block.get("text") if isinstance(block, dict) else None
            if kind == "tool_result":
                self._flush_result(ts)
                self._read_result_block(block, ts)
            elif kind == "text" and isinstance(text, str):
                self._read_text(text, ts)
            elif self._heading is not None:
                self._output.append(block)
            else:
                self._draft.add_message(
                    "user", [unpack_block(block)], self._get_user(), ts=ts, visibility="public"
                )
        self._flush_result(ts)

    def _get_user(self) -> str:
        return self._draft.get_actor("human", "user")

    def _read_text(self, text: str, ts: str | None) -> None:
        result = parse_text_result(text)
        if result is None:
            if self._heading is not None and not is_injected(text):
                self._output.append({"type": "text", "text": text})
                return
            self._flush_result(ts)
            self._add_prompt(text, ts)
            return
        self._flush_result(ts)
        key = self._take_call(result.tool)
        # Some builds put the output into the blocks after the heading.
        if result.ran and not text[result.start :].strip():
            self._heading = text.strip()
            self._heading_call = key
            return
        if key:
            self._draft.add_tool_result(key, text, ts=ts, facts=_get_facts(text, result) or None)
        else:
            self._draft.add_message("user", text, self._client, ts=ts, visibility="internal")
        self._add_user_text(extract_answer(text, result), ts)

    def _add_prompt(self, text: str, ts: str | None) -> None:
        """Add text that is not a tool result: typed text is public, all other text internal."""
        typed = extract_typed_text(text)
        if typed is None and (text.strip() in self._typed or not is_injected(text)):
            typed = text
        if typed is None:
            self._draft.add_message("user", text, self._client, ts=ts, visibility="internal")
            return
        event = self._add_user_text(typed, ts)
        if event is not None and typed != text:
            self._draft.add_annotation({"kind": "sent_text", "text": text}, parent=event, ts=ts)

    def _add_user_text(self, text: str | None, ts: str | None) -> Event | None:
        if text is None:
            return None
        return self._draft.add_message("user", text, self._get_user(), ts=ts)

    def _take_call(self, tool: str) -> str | None:
        """Return the key of the first open call of the tool, or else of the first open call."""
        for name in (tool, ""):
            keys = self._pending.get(name, deque())
            while keys:
                key = keys.popleft()
                if self._draft.is_call_open(key):
                    return key
        return None

    def _flush_result(self, ts: str | None) -> None:
        """Add the result whose heading and output blocks were collected."""
        if self._heading is None:
            return
        heading = self._heading
        key = self._heading_call
        blocks = self._output
        self._heading = None
        self._heading_call = None
        self._output = []
        result = parse_text_result(heading)
        if key is None or result is None:
            self._add_unmatched_result(heading, blocks, result, ts)
            return
        output = parse_content(blocks) if blocks else ""
        text = heading
        if isinstance(output, str):
            text += output
        facts = {"heading": heading, **_get_facts(text, result)}
        self._draft.add_tool_result(key, output, ts=ts, facts=facts)
        self._add_user_text(extract_answer(text, result), ts)

    def _add_unmatched_result(
        self, heading: str, blocks: list[Any], result: TextResult | None, ts: str | None
    ) -> None:
        """Add the result of a call that is text itself, as internal messages.

        Only what the user answered is public.
        """
        self._draft.add_message("user", heading, self._client, ts=ts, visibility="internal")
        for block in blocks:
            content = parse_content([block])
            answer = None
            if isinstance(content, str) and result:
                answer = extract_answer(f"{heading}{content}", result)
            if isinstance(content, str) and answer is not None:
                self._add_prompt(content, ts)
            else:
                self._draft.add_message("user", content, self._client, ts=ts, visibility="internal")

    def _read_result_block(self, block: Block, ts: str | None) -> None:
        add_result_block(self._draft, block, ts=ts, span=None)
        output = parse_content(block.get("content"))
        if isinstance(output, str):
            result = parse_text_result(output)
            if result:
                self._add_user_text(extract_answer(output, result), ts)

    def read_response(
        self, message: dict[str, Any], request: dict[str, Any], ts: str | None, position: str
    ) -> None:
        """Read a message of the model.

        Older builds write calls as XML; those stay in the text.
        """
        model = message.get("modelInfo")
        if isinstance(model, dict):
            self._model = model
        self._annotate_settings(ts)
        actor = self.get_model_actor()
        # A text result answers only calls of the last response.
        self._pending.clear()
        self._response_ts = ts
        blocks = []
        for block in _to_blocks(message.get("content")):
            # Roo Code stores the reasoning of other providers in blocks of this kind.
            if get_block_type(block) == "reasoning":
                self._read_reasoning(block, actor, ts)
            else:
                blocks.append(block)
        add_answer(
            self._draft,
            blocks,
            actor,
            ts=ts,
            usage=_parse_usage(message.get("metrics"), request),
            group=position,
            called=self._add_pending_call,
        )

    def get_model_actor(self) -> str:
        """Return the actor of the current model."""
        model = as_text(self._model.get("modelId"))
        provider = self.providers.add_model(as_text(self._model.get("providerId")), model)
        return self._draft.get_actor("model", "assistant", provider=provider, model=model)

    def _annotate_settings(self, ts: str | None) -> None:
        """Add the mode and the model when they change."""
        facts = {
            "mode": as_text(self._model.get("mode")),
            "model": as_text(self._model.get("modelId")),
        }
        settings = drop_nulls(facts)
        if settings and settings != self._settings:
            self._settings = settings
            self._draft.add_annotation({"kind": "settings", **settings}, actor=self._client, ts=ts)

    def _read_reasoning(self, block: Block, actor: str, ts: str | None) -> None:
        text = as_text(block.get("text"))
        if text:
            self._draft.add_reasoning(text, actor, ts=ts)
            return
        summaries = [
            part["text"]
            for part in _to_blocks(block.get("summary"))
            if isinstance(part, dict) and as_text(part.get("text"))
        ]
        summary = "\n\n".join(summaries) or None
        self._draft.add_reasoning(summary, actor, ts=ts, summary=summary is not None)

    def _add_pending_call(self, key: str, block: Block) -> None:
        """Remember a call; add the text of a call by which the model speaks to the user."""
        tool = as_text(block.get("name")) or "tool"
        for name in (tool, ""):
            self._pending.setdefault(name, deque()).append(key)
        arguments = block.get("input")
        if tool not in _SPEAKING_TOOLS or not isinstance(arguments, dict):
            return
        text = as_text(arguments.get(_SPEAKING_TOOLS[tool]))
        if text:
            call = f"evt_{self._draft.count:06d}"
            self._draft.add_message(
                "assistant", text, self.get_model_actor(), ts=self._response_ts, parent=call
            )


def _to_blocks(content: Any) -> list[Any]:
    if isinstance(content, list):
        return content
    return [{"type": "text", "text": content}] if content else []


def _parse_usage(metrics: Any, request: dict[str, Any]) -> Usage | None:
    """Return the tokens of a response.

    The panel separates cache reads and writes; the message has only their sum. The panel is used
    unless its output count contradicts the message.
    """
    tokens = metrics.get("tokens") if isinstance(metrics, dict) else None
    completion = tokens.get("completion") if isinstance(tokens, dict) else None
    output = request.get("tokensOut")
    has_request = type(request.get("tokensIn")) is int and type(output) is int
    if has_request and completion in (None, output):
        return parse_request_usage(request)
    if not isinstance(tokens, dict):
        return None
    # The prompt count leaves out cached tokens.
    input_tokens = sum_counts(tokens.get("prompt"), tokens.get("cached"))
    return build_usage(input_tokens=input_tokens, output_tokens=completion)


def parse_text_result(text: str) -> TextResult | None:
    """Parse the heading of a tool result in plain text; return None for other text."""
    match = _RESULT_HEADING.match(text)
    if match:
        return TextResult(match[1], match.end())
    match = _NOT_EXECUTED.match(text)
    if match:
        return TextResult(match[1], 0, ran=False)
    return None


def is_injected(text: str) -> bool:
    """Return whether the client wrote the text, with nothing in it that the user typed."""
    return text.lstrip().startswith(_INJECTED_PREFIXES) and extract_typed_text(text) is None


def extract_typed_text(text: str) -> str | None:
    """Return what the user typed, without the tags around it; None if there are no tags."""
    # These details quote files, which may contain any of the tags.
    if text.lstrip().startswith("<environment_details>"):
        return None
    for tag in _PROMPT_TAGS:
        start = text.find(f"<{tag}>")
        end = text.rfind(f"</{tag}>")
        if 0 <= start < end:
            return text[start + len(tag) + 2 : end].strip("\r\n")
    return None


def extract_answer(text: str, result: TextResult) -> str | None:
    """Return what the user wrote in a result: an answer to a question, or feedback on a tool."""
    output = text[result.start :].lstrip()
    if result.tool in _ASKING_TOOLS or output.startswith(_FEEDBACK_PREFIXES):
        return extract_typed_text(output)
    return None


def _get_facts(text: str, result: TextResult) -> dict[str, Any]:
    if not result.ran:
        return {"not_executed": True}
    if text[result.start :].lstrip().startswith(_DENIED):
        return {"rejected": True}
    return {}
