"""Tells trajectories of mini-swe-agent: provider messages in one of three forms, with facts beside
each."""

import re
from collections import deque
from typing import Any

from open_token.agents.swe_agent.trajectory import outcome
from open_token.builder.draft import Draft
from open_token.formats.shared import chat_messages as chat
from open_token.formats.shared import responses_items as responses
from open_token.formats.shared.fields import as_dicts, as_text
from open_token.formats.shared.message_writer import CallMatcher, MessageWriter
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.providers import identify_provider
from open_token.formats.shared.responses_content import parse_content
from open_token.formats.shared.responses_content import parse_usage as responses_usage
from open_token.jsontools.timestamps import from_epoch
from open_token.model.document import Usage

Body = dict[str, Any]
_OPENING = re.compile(r"```(?:bash|mswea_bash_command)[ \t]*\n")
_OUTPUT = ("raw_output", "returncode", "output")


def tell(document: Body, draft: Draft) -> None:
    """Tell the run to the draft, in order."""
    draft.conversation["source_runtime"] = "cli"
    draft.without_thoughts = "unknown"
    runtime = draft.get_actor("system", "mini-swe-agent")
    model = _context(document, draft, runtime)
    run = _Run(draft, runtime, model, document.get("info"))
    for number, message in enumerate(document["messages"], 1):
        if isinstance(message, dict):
            run.tell(message, f"message {number}")
        else:
            draft.note_omission(
                "unknown-record", f"message {number}", "an entry that is no message"
            )
    outcome(document, draft, runtime)


def _context(document: Body, draft: Draft, runtime: str) -> str | None:
    found = document.get("info")
    info: Body = found if isinstance(found, dict) else {}
    config = info.get("config")
    parts = (
        [config.get(name) for name in ("model", "environment")]
        if isinstance(config, dict)
        else [None, None]
    )
    model, environment = (part if isinstance(part, dict) else {} for part in parts)
    facts = {
        "version": as_text(info.get("mini_version")),
        "model": as_text(model.get("model_name")),
        "cwd": as_text(environment.get("cwd")),
        "task": as_text(document.get("instance_id")),
    }
    known = {name: value for name, value in facts.items() if value}
    if known:
        draft.add_annotation({"kind": "context"} | known, actor=runtime)
    if config:
        draft.note_omission("skipped-field", "info", "the configuration of the run")
    if title := known.get("task"):
        draft.conversation["title"] = title
    if provider := identify_provider(known.get("model")):
        draft.conversation["provider"] = provider
    return known.get("model")


class _Run:
    """The messages one by one; commands that stand in the text of an answer are answered by the
    next message."""

    def __init__(self, draft: Draft, runtime: str, model: str | None, info: Any) -> None:
        self._draft = draft
        self._info: Body = info if isinstance(info, dict) else {}
        self._runtime = runtime
        self._model = model
        self._calls = CallMatcher(draft)
        self._open: deque[str] = deque()
        self._refused = False
        """The last answer had no command, or several: the runtime will ask again."""

    def tell(self, message: Body, place: str) -> None:
        """One message."""
        found = message.get("extra")
        extra: Body = found if isinstance(found, dict) else {}
        ts = from_epoch(extra.get("timestamp"))
        role = message.get("role")
        if message.get("object") == "response" or isinstance(message.get("output"), list):
            self._response(message, extra, place, ts)
        elif message.get("type") == "function_call_output":
            self._output(message, extra, place, ts)
        elif role == "assistant":
            self._answer(message, extra, place, ts)
        elif role in ("tool", "function"):
            self._tool(message, extra, place, ts)
        elif role == "user":
            self._user(message, extra, place, ts)
        elif role in ("system", "developer"):
            self._draft.add_message("system", self._words(message, place), self._runtime, ts=ts)
        elif role == "exit":
            self._exit(message, extra, ts)
        else:
            self._draft.note_omission("unknown-role", place, f"role {format_kind(role)}")

    def _words(self, message: Body, place: str) -> str | list[Any]:
        value = message.get("content")
        if message.get("type") == "message":
            return parse_content(value)
        return chat.parse_content(self._draft, value, place) or ""

    def _actor(self, response: Any) -> str:
        model = (
            as_text(response.get("model")) if isinstance(response, dict) else None
        ) or self._model
        return self._draft.get_actor(
            "model", "agent", provider=identify_provider(self._model or model), model=model
        )

    def _answer(self, message: Body, extra: Body, place: str, ts: str | None) -> None:
        response = extra.get("response")
        voice = MessageWriter(
            self._draft, self._actor(response), self._calls, place, ts, _spent(response)
        )
        chat.add_assistant_message(voice, message)
        self._open.clear()
        called = as_dicts(message.get("tool_calls"))
        commands = [] if called else _commands(message, extra)
        if not called and len(commands) < len(as_dicts(extra.get("actions"))):
            self._draft.note_omission("unknown-part", place, "an action without a command")
        for command in commands:
            voice.add_tool_call(None, "bash", {"command": command})
            self._open.append(voice.call_keys[-1])
        self._refused = not voice.call_keys
        voice.close()

    def _response(self, message: Body, extra: Body, place: str, ts: str | None) -> None:
        """An answer of the Responses API, whole."""
        model = as_text(message.get("model")) or self._model
        voices = responses.ItemActors(
            self._draft, name="agent", provider=identify_provider(model), model=model
        )
        spent = responses_usage(message.get("usage"))
        items = as_dicts(message.get("output"))
        only_thought = all(item.get("type") == "reasoning" for item in items)
        for item in items:
            spoken = {"role": "assistant", **item} if item.get("type") == "message" else item
            usage = spent if only_thought or item.get("type") != "reasoning" else None
            if (
                responses.add_item(
                    self._draft, spoken, voices, ts=ts, group=place, place=place, usage=usage
                )
                and usage
            ):
                spent = None
        self._open.clear()

    def _output(self, message: Body, extra: Body, place: str, ts: str | None) -> None:
        voices = responses.ItemActors(self._draft)
        responses.add_item(
            self._draft,
            message,
            voices,
            ts=ts,
            place=place,
            facts=self._facts(message, extra, place),
        )

    def _tool(self, message: Body, extra: Body, place: str, ts: str | None) -> None:
        key = self._calls.find_key(
            as_text(message.get("tool_call_id")), as_text(message.get("name"))
        )
        output = self._words(message, place)
        self._draft.add_tool_result(key, output, ts=ts, facts=self._facts(message, extra, place))

    def _user(self, message: Body, extra: Body, place: str, ts: str | None) -> None:
        """The task, the output of a command, a word of the person, or a reminder of the form."""
        rejected = extra.get("interrupt_type") == "FormatError"
        is_output = any(name in extra for name in _OUTPUT)
        words = self._words(message, place)
        if rejected:
            self._rejected(extra, place, ts)
        if self._open and not rejected and (is_output or not extra):
            self._draft.add_tool_result(
                self._open.popleft(), words, ts=ts, facts=self._facts(message, extra, place)
            )
        elif rejected or is_output or (self._refused and not extra):
            self._draft.add_message("user", words, self._runtime, ts=ts, visibility="internal")
        else:
            event = self._draft.add_message(
                "user", words, self._draft.get_actor("human", "user"), ts=ts
            )
            if kind := as_text(extra.get("interrupt_type")):
                self._draft.add_annotation(
                    {"kind": "interrupted", "reason": kind}, parent=event, ts=ts
                )

    def _rejected(self, extra: Body, place: str, ts: str | None) -> None:
        """The answer that had the wrong form is kept beside the reminder only."""
        response = extra.get("response")
        choices = as_dicts(response.get("choices")) if isinstance(response, dict) else []
        message = choices[0].get("message") if choices else None
        if not isinstance(message, dict):
            if choices:
                self._draft.note_omission("no-content", place, "a choice without a message")
            said = as_text(extra.get("model_response"))
            if not said:
                return
            message = {"content": said}
        voice = MessageWriter(
            self._draft, self._actor(response), self._calls, place, ts, _spent(response)
        )
        chat.add_assistant_message(voice, message)
        voice.add_annotation("message_facts", rejected=True)
        voice.close()

    def _facts(self, message: Body, extra: Body, place: str) -> Body:
        facts: Body = {}
        if type(code := extra.get("returncode")) is int:
            facts["exit_code"] = code
        if as_text(extra.get("exception_info")):
            facts["exception"] = extra["exception_info"]
        raw, shown = extra.get("raw_output"), message.get("content", message.get("output"))
        if isinstance(raw, str) and isinstance(shown, str) and raw.strip() not in shown:
            self._draft.note_omission(
                "unshown-output", place, "the whole output of which the model saw a part"
            )
        return facts

    def _exit(self, message: Body, extra: Body, ts: str | None) -> None:
        """The end of the run, as far as the outcome does not tell it again."""
        data = {
            name: extra[name]
            for name in ("exit_status", "submission")
            if extra.get(name, self._info.get(name)) != self._info.get(name)
        }
        said = message.get("content")
        if said and said not in (extra.get("submission"), self._info.get("submission")):
            data["text"] = said
        if data:
            self._draft.add_annotation({"kind": "stop", **data}, actor=self._runtime, ts=ts)


def _spent(response: Any) -> Usage | None:
    return chat.parse_usage(response.get("usage")) if isinstance(response, dict) else None


def _commands(message: Body, extra: Body) -> list[str]:
    """The commands of an answer in text: those the runtime found, or the only one there is."""
    actions = [as_text(action.get("command")) for action in as_dicts(extra.get("actions"))]
    if found := [command for command in actions if command]:
        return found
    text = message.get("content")
    marked = _fenced(text) if isinstance(text, str) else []
    return marked if len(marked) == 1 else []


def _fenced(text: str) -> list[str]:
    """What stands in fences of bash, of which the last may be left open."""
    found: list[str] = []
    opening = _OPENING.search(text)
    while opening:
        end = text.find("\n```", opening.end() - 1)
        if end < 0:
            break
        found.append(text[opening.end() : end].strip())
        opening = _OPENING.search(text, end + 4)
    return found
