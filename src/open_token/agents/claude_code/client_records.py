"""Read the records that Claude Code writes about itself.

These are notices, attachments, the system prompt and tools of its requests, costs and pull
requests.
"""

from collections.abc import Callable
from typing import Any

from open_token.agents.claude_code.records import Line, Record, get_text, to_safe_name
from open_token.agents.claude_code.thread import Thread
from open_token.builder.draft import Draft
from open_token.formats.shared.anthropic_blocks import parse_content
from open_token.formats.shared.notes import note_tool_definitions
from open_token.jsontools.media import build_media_block
from open_token.model.document import Role

_NOTICE_FIELDS = {
    "level": "level",
    "durationMs": "duration_ms",
    "stopReason": "stop_reason",
    "preventedContinuation": "prevented_continuation",
    "hookInfos": "hooks",
    "hookErrors": "hook_errors",
    "apiRefusalCategory": "category",
    "apiRefusalExplanation": "explanation",
    "trigger": "trigger",
    "originalModel": "original_model",
    "fallbackModel": "fallback_model",
}
_COMPACTION_FIELDS = {
    "trigger": "trigger",
    "preTokens": "pre_tokens",
    "postTokens": "post_tokens",
    "durationMs": "duration_ms",
}
_MODEL_USAGE_FIELDS = {
    "inputTokens": "uncached_input_tokens",
    "outputTokens": "output_tokens",
    "cacheReadInputTokens": "cache_read_tokens",
    "cacheCreationInputTokens": "cache_write_tokens",
}
_PULL_REQUEST_FIELDS = {"prNumber": "number", "prUrl": "url", "prRepository": "repository"}
# Fields of an attachment with text that the model reads.
_TEXT_FIELDS = (
    "content",
    "text",
    "snippet",
    "banner",
    "blockingError",
    "addedLines",
    "addedBlocks",
    "skills",
    "files",
    "diagnostics",
    "message",
)
_MAX_ERROR_DEPTH = 4

AddUserContent = Callable[[list[Any], Line, Thread, str | None], bool]


class ClientRecordReader:
    """Adds the events of records that are not messages."""

    def __init__(self, draft: Draft, client: str, add_user_content: AddUserContent) -> None:
        self._draft = draft
        self._client = client
        self._add_user_content = add_user_content
        self._system_prompts: set[str] = set()
        self._tools: set[tuple[str, ...]] = set()
        self._total_cost = 0.0

    def _annotate(self, data: Record, thread: Thread, ts: str | None = None) -> None:
        self._draft.add_annotation(data, actor=self._client, ts=ts, span=thread.span)

    def _add_internal(
        self, role: Role, content: str | list[Any], thread: Thread, ts: str | None
    ) -> None:
        self._draft.add_message(
            role, content, self._client, ts=ts, visibility="internal", span=thread.span
        )

    def read_system(self, record: Record, thread: Thread, ts: str | None) -> bool:
        """Read a notice of the client; return False if nothing in it is worth exporting."""
        subtype = to_safe_name(record.get("subtype"))
        content = record.get("content")
        # Besides `compact_boundary` there is `microcompact_boundary`.
        if subtype.endswith("compact_boundary"):
            data = {"kind": "compaction"}
            data |= _pick(record.get("compactMetadata"), _COMPACTION_FIELDS)
            if subtype != "compact_boundary":
                data["scope"] = subtype.removesuffix("_boundary")
        elif subtype in ("api_error", "error"):
            data = {"kind": "api_error"} | _parse_error(record)
        elif subtype == "local_command" and isinstance(content, str):
            self._add_user_content([content], Line(), thread, ts)
            return True
        else:
            data = {"kind": "notice", "subtype": subtype} | _pick(record, _NOTICE_FIELDS)
            if isinstance(content, str) and content:
                data["text"] = content
            if data.keys() <= {"kind", "subtype", "level"}:
                return False
        self._annotate(data, thread, ts)
        return True

    def read_attachment(self, record: Record, thread: Thread, ts: str | None) -> None:
        """Read what was attached to a prompt, or queued while the model worked."""
        attachment = record.get("attachment")
        if type(attachment) is not dict:
            return
        kind = attachment.get("type")
        # A prompt that was typed while the model was working.
        if kind == "queued_command" and attachment.get("prompt"):
            prompt = attachment["prompt"]
            blocks = prompt if type(prompt) is list else [prompt]
            self._add_user_content(blocks, _build_queued_line(attachment), thread, ts)
            return
        if kind == "prompt_snapshot":
            self.read_request(attachment.get("systemPrompt"), attachment.get("tools"), thread, ts)
            return
        rendered = _read_rendered(record)
        if rendered:
            role: Role = "user" if record.get("renderedRole") == "user" else "system"
            self._add_internal(role, parse_content(rendered), thread, ts)
        elif any(attachment.get(field) for field in _TEXT_FIELDS):
            self._add_internal("user", [_normalize_image(attachment)], thread, ts)
        else:
            self._annotate({"kind": "attachment", "attachment": attachment}, thread, ts)

    def read_request(self, system: Any, tools: Any, thread: Thread, ts: str | None) -> None:
        """Read the system prompt of a request and the names of its tools, each exported once."""
        blocks = system if type(system) is list else []
        if isinstance(system, str):
            blocks = [system]
        blocks = [
            {"type": "text", "text": block} if isinstance(block, str) else block for block in blocks
        ]
        prompt = "\0".join(get_text(block, "text") or "" for block in blocks)
        if prompt.strip("\0") and prompt not in self._system_prompts:
            self._system_prompts.add(prompt)
            self._draft.add_message(
                "system", parse_content(blocks), self._client, ts=ts, span=thread.span
            )
        self.read_tools(tools, thread, ts)

    def read_tools(self, tools: Any, thread: Thread, ts: str | None) -> None:
        """Read the names of the tools that the model was offered, each list exported once."""
        if type(tools) is not list:
            return
        given_names = [get_text(tool, "name") for tool in tools]
        names = tuple(name for name in given_names if name)
        # Every request repeats the tools.
        if not names or names in self._tools:
            return
        self._tools.add(names)
        self._annotate({"kind": "tools", "tools": list(names)}, thread, ts)
        note_tool_definitions(self._draft.note_omission, tools, f"event {self._draft.count}")

    def read_cost(self, record: Record, thread: Thread) -> None:
        """Read what the session has cost so far (cost-state, 2.1.325) as the increase since then.

        It includes requests that no message counts: summaries, titles and aborted answers.
        """
        total = record.get("totalCostUSD")
        if not isinstance(total, int | float) or isinstance(total, bool):
            return
        if total == self._total_cost:
            return
        # A total that went down was counted anew from zero.
        increase = total - self._total_cost if total > self._total_cost else total
        self._total_cost = total
        data: Record = {"kind": "cost", "cost_usd": round(increase, 10), "session_cost_usd": total}
        models = record.get("modelUsage")
        if type(models) is dict:
            data["session_tokens"] = {
                name: _pick(counts, _MODEL_USAGE_FIELDS) for name, counts in models.items()
            }
        self._annotate(data, thread)

    def read_pull_request(self, record: Record, ts: str | None) -> None:
        """Read the link to a pull request that the session created."""
        data = {"kind": "pull_request"} | _pick(record, _PULL_REQUEST_FIELDS)
        self._draft.add_annotation(data, actor=self._client, ts=ts)


def _pick(record: Any, names: dict[str, str]) -> Record:
    """Return the non-empty fields under our names; the number 0 is not empty."""
    if type(record) is not dict:
        return {}
    return {
        name: record[key]
        for key, name in names.items()
        if record.get(key) or type(record.get(key)) is int
    }


def _parse_error(record: Record) -> Record:
    """Return message, status and retries of an API error.

    Versions differ in how many `error` objects are nested around the message.
    """
    data = _pick(record, {"retryAttempt": "attempt", "maxRetries": "max_retries"})
    error = record.get("error")
    if isinstance(error, str):
        return data | {"message": error}
    data |= _pick(error, {"status": "status", "type": "type"})
    for _ in range(_MAX_ERROR_DEPTH):
        message = get_text(error, "message") or get_text(error, "formatted")
        if message:
            return data | {"message": message}
        error = error.get("error") if type(error) is dict else None
    return data


def _build_queued_line(attachment: Record) -> Line:
    """Return a line with the origin of a queued prompt: usually a person, else a task."""
    mode = attachment.get("commandMode")
    is_task = isinstance(mode, str) and mode.startswith("task")
    is_meta = attachment.get("isMeta") is True or is_task
    return Line(is_meta=is_meta, origin=attachment.get("origin"))


def _read_rendered(record: Record) -> list[Any]:
    """Return the attachment as it was sent to the model, if the client recorded that."""
    rendered = record.get("rendered")
    if type(rendered) is not list:
        return []
    blocks: list[Any] = []
    for item in rendered:
        content = item.get("content") if type(item) is dict else None
        if isinstance(content, str) and content.strip():
            blocks.append({"type": "text", "text": content})
        elif type(content) is list:
            blocks += content
    return blocks


def _normalize_image(attachment: Record) -> Record:
    """Return the attachment with the bytes of an image in the export's form for media."""
    content = attachment.get("content")
    if not isinstance(content, dict):
        return attachment
    file = content.get("file")
    data = get_text(file, "base64")
    if data is None or not isinstance(file, dict):
        return attachment
    rest = {key: value for key, value in file.items() if key not in ("base64", "type")}
    image = {**build_media_block(get_text(file, "type"), data), **rest}
    return attachment | {"content": {**content, "file": image}}
