"""Read trajectories of mini-swe-agent: messages of a provider in one of three forms."""

import re
from collections import deque
from typing import Any

from open_token.agents.swe_agent.trajectory import annotate_outcome
from open_token.builder.draft import Draft
from open_token.formats.shared import chat_messages as chat
from open_token.formats.shared import responses_items as responses
from open_token.formats.shared.fields import as_dicts, as_text, drop_nulls
from open_token.formats.shared.message_writer import CallMatcher, MessageWriter
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.providers import identify_provider
from open_token.formats.shared.responses_content import parse_content
from open_token.formats.shared.responses_content import parse_usage as responses_usage
from open_token.jsontools.timestamps import from_epoch

Body = dict[str, Any]
_COMMAND_START = re.compile(r"```(?:bash|mswea_bash_command)[ \t]*\n")
_OUTPUT_FIELDS = ("raw_output", "returncode", "output")


def read_mini_trajectory(document: Body, draft: Draft) -> None:
    """Read the run into the draft."""
    draft.conversation["source_runtime"] = "cli"
    draft.without_thoughts = "unknown"
    runtime = draft.get_actor("system", "mini-swe-agent")
    model = _read_context(document, draft, runtime)
    reader = _MessageReader(draft, runtime, model, _get_object(document, "info"))
    for number, message in enumerate(document["messages"], 1):
        if isinstance(message, dict):
            reader.read(message, f"message {number}")
        else:
            draft.note_omission(
                "unknown-record", f"message {number}", "entry that is not a message"
            )
    annotate_outcome(document, draft, runtime)


def _read_context(document: Body, draft: Draft, runtime: str) -> str | None:
    """Read the version, the model, the directory and the task; return the model."""
    info = _get_object(document, "info")
    config = _get_object(info, "config")
    model = as_text(_get_object(config, "model").get("model_name"))
    task = as_text(document.get("instance_id"))
    facts = {
        "version": as_text(info.get("mini_version")),
        "model": model,
        "cwd": as_text(_get_object(config, "environment").get("cwd")),
        "task": task,
    }
    data = drop_nulls(facts)
    if data:
        draft.add_annotation({"kind": "context"} | data, actor=runtime)
    if info.get("config"):
        draft.note_omission("skipped-field", "info", "the configuration of the run")
    if task:
        draft.conversation["title"] = task
    provider = identify_provider(model)
    if provider:
        draft.conversation["provider"] = provider
    return model


class _MessageReader:
    """Reads messages one by one.

    A command in the text of a response is answered by the next message.
    """

    def __init__(self, draft: Draft, runtime: str, model: str | None, info: Body) -> None:
        self._draft = draft
        self._info = info
        self._runtime = runtime
        self._model = model
        self._calls = CallMatcher(draft)
        self._open_calls: deque[str] = deque()
        self._has_no_call = False
        """The last response had no command, or several: the runtime will ask again."""

    def read(self, message: Body, position: str) -> None:
        """Read one message."""
        extra = _get_object(message, "extra")
        ts = from_epoch(extra.get("timestamp"))
        role = message.get("role")
        # A run stores what the API of its model returned: whole responses and outputs of the
        # Responses API, else messages of the chat API, with calls or with commands in their texts.
        if message.get("object") == "response" or isinstance(message.get("output"), list):
            self._read_api_response(message, position, ts)
        elif message.get("type") == "function_call_output":
            self._read_api_output(message, extra, position, ts)
        elif role == "assistant":
            self._read_response(message, extra, position, ts)
        elif role in ("tool", "function"):
            self._read_tool_message(message, extra, position, ts)
        elif role == "user":
            self._read_user_message(message, extra, position, ts)
        elif role in ("system", "developer"):
            text = self._get_content(message, position)
            self._draft.add_message("system", text, self._runtime, ts=ts)
        elif role == "exit":
            self._read_exit(message, extra, ts)
        else:
            self._draft.note_omission("unknown-role", position, f"role {format_kind(role)}")

    def _get_content(self, message: Body, position: str) -> str | list[Any]:
        value = message.get("content")
        if message.get("type") == "message":
            return parse_content(value)
        return chat.parse_content(self._draft, value, position) or ""

    def _start_message(self, response: Any, position: str, ts: str | None) -> MessageWriter:
        """Start a message of the model that the response names, or else the configuration."""
        response = response if isinstance(response, dict) else {}
        model = as_text(response.get("model")) or self._model
        # The configured name has a prefix of the provider; the one of the response has none.
        provider = identify_provider(self._model or model)
        actor = self._draft.get_actor("model", "agent", provider=provider, model=model)
        usage = chat.parse_usage(response.get("usage"))
        return MessageWriter(self._draft, actor, self._calls, position, ts, usage)

    def _read_response(self, message: Body, extra: Body, position: str, ts: str | None) -> None:
        """Read a response of the chat API, with function calls or with commands in its text."""
        output = self._start_message(extra.get("response"), position, ts)
        chat.add_assistant_message(output, message)
        self._open_calls.clear()
        # Models without function calls write the command into a code block.
        if not as_dicts(message.get("tool_calls")):
            commands = _find_commands(message, extra)
            if len(commands) < len(as_dicts(extra.get("actions"))):
                self._draft.note_omission("unknown-part", position, "action without a command")
            for command in commands:
                output.add_tool_call(None, "bash", {"command": command})
                self._open_calls.append(output.call_keys[-1])
        self._has_no_call = not output.call_keys
        output.close()

    def _read_api_response(self, message: Body, position: str, ts: str | None) -> None:
        """Read a complete response of the Responses API."""
        model = as_text(message.get("model")) or self._model
        actors = responses.ItemActors(
            self._draft, name="agent", provider=identify_provider(model), model=model
        )
        usage = responses_usage(message.get("usage"))
        items = as_dicts(message.get("output"))
        is_only_reasoning = all(item.get("type") == "reasoning" for item in items)
        for item in items:
            kind = item.get("type")
            if kind == "message":
                item = {"role": "assistant", **item}
            # The usage is on the first item that is not reasoning, if there is one.
            item_usage = usage if is_only_reasoning or kind != "reasoning" else None
            event = responses.add_item(
                self._draft, item, actors, ts=ts, group=position, place=position, usage=item_usage
            )
            if event and item_usage:
                usage = None
        self._open_calls.clear()

    def _read_api_output(self, message: Body, extra: Body, position: str, ts: str | None) -> None:
        """Read a function call output of the Responses API."""
        responses.add_item(
            self._draft,
            message,
            responses.ItemActors(self._draft),
            ts=ts,
            place=position,
            facts=self._get_result_facts(message, extra, position),
        )

    def _read_tool_message(self, message: Body, extra: Body, position: str, ts: str | None) -> None:
        key = self._calls.find_key(
            as_text(message.get("tool_call_id")), as_text(message.get("name"))
        )
        output = self._get_content(message, position)
        facts = self._get_result_facts(message, extra, position)
        self._draft.add_tool_result(key, output, ts=ts, facts=facts)

    def _read_user_message(self, message: Body, extra: Body, position: str, ts: str | None) -> None:
        """Read a task, an output, an interruption by the user, or a reminder of the format."""
        interruption = as_text(extra.get("interrupt_type"))
        is_format_error = interruption == "FormatError"
        is_output = any(name in extra for name in _OUTPUT_FIELDS)
        text = self._get_content(message, position)
        if is_format_error:
            self._read_rejected_response(extra, position, ts)
        elif self._open_calls and (is_output or not extra):
            facts = self._get_result_facts(message, extra, position)
            self._draft.add_tool_result(self._open_calls.popleft(), text, ts=ts, facts=facts)
            return
        # Output without an open call, and reminders, are from the runtime.
        if is_format_error or is_output or (self._has_no_call and not extra):
            self._draft.add_message("user", text, self._runtime, ts=ts, visibility="internal")
            return
        event = self._draft.add_message("user", text, self._draft.get_actor("human", "user"), ts=ts)
        if interruption:
            data = {"kind": "interrupted", "reason": interruption}
            self._draft.add_annotation(data, parent=event, ts=ts)

    def _read_rejected_response(self, extra: Body, position: str, ts: str | None) -> None:
        """Read a response of the wrong format, which only the reminder contains."""
        response = extra.get("response")
        choices = as_dicts(response.get("choices")) if isinstance(response, dict) else []
        message = choices[0].get("message") if choices else None
        if not isinstance(message, dict):
            if choices:
                self._draft.note_omission("no-content", position, "choice without a message")
            text = as_text(extra.get("model_response"))
            if not text:
                return
            message = {"content": text}
        output = self._start_message(response, position, ts)
        chat.add_assistant_message(output, message)
        output.add_annotation("message_facts", rejected=True)
        output.close()

    def _get_result_facts(self, message: Body, extra: Body, position: str) -> Body:
        facts: Body = {}
        exit_code = extra.get("returncode")
        if type(exit_code) is int:
            facts["exit_code"] = exit_code
        exception = as_text(extra.get("exception_info"))
        if exception:
            facts["exception"] = exception
        # The runtime shows the model only the two ends of a long output.
        output = extra.get("raw_output")
        shown = message.get("content", message.get("output"))
        if isinstance(output, str) and isinstance(shown, str) and output.strip() not in shown:
            self._draft.note_omission(
                "unshown-output",
                position,
                "full output, of which the model saw a part",
                what="result",
                size=len(output),
            )
        return facts

    def _read_exit(self, message: Body, extra: Body, ts: str | None) -> None:
        """Annotate the end of the run, unless the outcome repeats it."""
        data: Body = {}
        for name in ("exit_status", "submission"):
            if name in extra and extra[name] != self._info.get(name):
                data[name] = extra[name]
        text = message.get("content")
        if text and text not in (extra.get("submission"), self._info.get("submission")):
            data["text"] = text
        if data:
            self._draft.add_annotation({"kind": "stop", **data}, actor=self._runtime, ts=ts)


def _get_object(record: Body, name: str) -> Body:
    value = record.get(name)
    return value if isinstance(value, dict) else {}


def _find_commands(message: Body, extra: Body) -> list[str]:
    """Return the commands that the runtime found in a response, or the only fenced one."""
    actions = [as_text(action.get("command")) for action in as_dicts(extra.get("actions"))]
    commands = [command for command in actions if command]
    if commands:
        return commands
    text = message.get("content")
    if not isinstance(text, str):
        return []
    commands = _find_fenced_commands(text)
    return commands if len(commands) == 1 else []


def _find_fenced_commands(text: str) -> list[str]:
    """Return the contents of fenced bash blocks; a block that is not closed does not count."""
    commands: list[str] = []
    start = _COMMAND_START.search(text)
    while start:
        end = text.find("\n```", start.end() - 1)
        if end < 0:
            break
        commands.append(text[start.end() : end].strip())
        start = _COMMAND_START.search(text, end + 4)
    return commands
