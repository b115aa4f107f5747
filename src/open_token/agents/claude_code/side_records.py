"""What Claude Code wrote beside the talk: notices, attachments, the system prompt and tools of its
requests."""

from collections.abc import Callable
from typing import Any

from open_token.agents.claude_code.records import Line, Record, name_of, text_in
from open_token.agents.claude_code.thread import Thread
from open_token.agents.claude_code.user_text import pieces
from open_token.builder.draft import Draft
from open_token.formats.shared.anthropic_blocks import parse_content
from open_token.formats.shared.notes import note_tool_definitions
from open_token.jsontools.media import build_media_block

_NOTICE = {
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
_COMPACTION = {
    "trigger": "trigger",
    "preTokens": "pre_tokens",
    "postTokens": "post_tokens",
    "durationMs": "duration_ms",
}
_SPENT = {
    "inputTokens": "uncached_input_tokens",
    "outputTokens": "output_tokens",
    "cacheReadInputTokens": "cache_read_tokens",
    "cacheCreationInputTokens": "cache_write_tokens",
}
# In these an attachment holds what the model got to read.
_WORDS = (
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


class Asides:
    """Tells the records that are no line of talk."""

    def __init__(
        self, draft: Draft, client: str, say: Callable[[list[Any], Line, Thread, str | None], bool]
    ) -> None:
        self._draft = draft
        self._client = client
        self._say = say
        self._prompts: set[str] = set()
        self._tools: set[tuple[str, ...]] = set()
        self._cost = 0.0

    def system(self, record: Record, thread: Thread, ts: str | None) -> bool:
        """A notice of the client; False when there is nothing in it."""
        kind, content = name_of(record.get("subtype")), record.get("content")
        if kind.endswith("compact_boundary"):
            data = {"kind": "compaction"} | _picked(record.get("compactMetadata"), _COMPACTION)
            if kind != "compact_boundary":
                data["scope"] = kind.removesuffix("_boundary")
        elif kind in ("api_error", "error"):
            data = {"kind": "api_error"} | _error(record)
        elif kind == "local_command" and isinstance(content, str):
            self._command(content, thread, ts)
            return True
        else:
            data = {"kind": "notice", "subtype": kind} | _picked(record, _NOTICE)
            if text := text_in(record, "content"):
                data["text"] = text
            if data.keys() <= {"kind", "subtype", "level"}:
                return False
        self._draft.add_annotation(data, actor=self._client, ts=ts, span=thread.span)
        return True

    def _command(self, text: str, thread: Thread, ts: str | None) -> None:
        actor = thread.asker() if pieces(text)[0].origin == "command" else self._client
        self._draft.add_message("user", text, actor, ts=ts, visibility="internal", span=thread.span)

    def attachment(self, record: Record, thread: Thread, ts: str | None) -> None:
        """What came along with a prompt."""
        attached = record.get("attachment")
        if type(attached) is not dict:
            return
        kind = attached.get("type")
        if kind == "queued_command" and attached.get("prompt"):
            prompt = attached["prompt"]
            self._say(prompt if type(prompt) is list else [prompt], _queued(attached), thread, ts)
        elif kind == "prompt_snapshot":
            self.request(attached.get("systemPrompt"), attached.get("tools"), thread, ts)
        elif rendered := _rendered(record):
            role = "user" if record.get("renderedRole") == "user" else "system"
            self._draft.add_message(
                "user" if role == "user" else "system",
                parse_content(rendered),
                self._client,
                ts=ts,
                visibility="internal",
                span=thread.span,
            )
        elif any(attached.get(word) for word in _WORDS):
            self._draft.add_message(
                "user",
                [_with_media(attached)],
                self._client,
                ts=ts,
                visibility="internal",
                span=thread.span,
            )
        else:
            data = {"kind": "attachment", "attachment": attached}
            self._draft.add_annotation(data, actor=self._client, ts=ts, span=thread.span)

    def request(self, system: Any, tools: Any, thread: Thread, ts: str | None) -> None:
        """The system prompt of a request and the names of the tools it offered, each told once."""
        blocks = system if type(system) is list else [system] if isinstance(system, str) else []
        blocks = [
            {"type": "text", "text": block} if isinstance(block, str) else block for block in blocks
        ]
        words = "\0".join(text_in(block, "text") or "" for block in blocks)
        if words.strip("\0") and words not in self._prompts:
            self._prompts.add(words)
            self._draft.add_message(
                "system", parse_content(blocks), self._client, ts=ts, span=thread.span
            )
        names = tuple(
            name
            for tool in (tools if type(tools) is list else [])
            if (name := text_in(tool, "name"))
        )
        if names and names not in self._tools:
            self._tools.add(names)
            self._draft.add_annotation(
                {"kind": "tools", "tools": list(names)}, actor=self._client, ts=ts, span=thread.span
            )
            note_tool_definitions(self._draft.note_omission, tools, f"event {self._draft.count}")

    def cost(self, record: Record, thread: Thread) -> None:
        """What the session has cost so far (cost-state, 2.1.325), told as what it cost since the
        last time.

        It counts also what no message tells: summaries, titles, answers that were broken off."""
        total = record.get("totalCostUSD")
        if not isinstance(total, int | float) or isinstance(total, bool) or total == self._cost:
            return
        since = total - self._cost if total > self._cost else total
        self._cost = total
        data: Record = {"kind": "cost", "cost_usd": round(since, 10), "session_cost_usd": total}
        models = record.get("modelUsage")
        if type(models) is dict:
            data["session_tokens"] = {
                name: _picked(spent, _SPENT) for name, spent in models.items()
            }
        self._draft.add_annotation(data, actor=self._client, span=thread.span)

    def pull_request(self, record: Record, thread: Thread, ts: str | None) -> None:
        """A pull request that the session made."""
        names = {"prNumber": "number", "prUrl": "url", "prRepository": "repository"}
        self._draft.add_annotation(
            {"kind": "pull_request"} | _picked(record, names), actor=self._client, ts=ts
        )


def _picked(record: Any, names: dict[str, str]) -> Record:
    """The fields that are there and not empty, under our names."""
    if type(record) is not dict:
        return {}
    return {
        name: record[key]
        for key, name in names.items()
        if record.get(key) or type(record.get(key)) is int
    }


def _error(record: Record) -> Record:
    """An error of the API: its message, wherever this version put it, and how often it was
    tried."""
    data = _picked(record, {"retryAttempt": "attempt", "maxRetries": "max_retries"})
    error = record.get("error")
    if isinstance(error, str):
        return data | {"message": error}
    data |= _picked(error, {"status": "status", "type": "type"})
    for _ in range(4):
        if message := text_in(error, "message") or text_in(error, "formatted"):
            return data | {"message": message}
        error = error.get("error") if type(error) is dict else None
    return data


def _queued(attached: Record) -> Line:
    """Where a prompt came from that was put in while the model worked: a person, as a rule."""
    mode = attached.get("commandMode")
    put_in = attached.get("isMeta") is True or (isinstance(mode, str) and mode.startswith("task"))
    return Line(is_meta=put_in, origin=attached.get("origin"))


def _rendered(record: Record) -> list[Any]:
    """The attachment as the model got to read it, when the client kept that."""
    rendered = record.get("rendered")
    blocks: list[Any] = []
    for item in rendered if type(rendered) is list else []:
        content = item.get("content") if type(item) is dict else None
        if isinstance(content, str) and content.strip():
            blocks.append({"type": "text", "text": content})
        elif type(content) is list:
            blocks += content
    return blocks


def _with_media(attached: Record) -> Record:
    """An attached image in the form that all media have."""
    content = attached.get("content")
    file = content.get("file") if isinstance(content, dict) else None
    data = text_in(file, "base64")
    if data is None or not isinstance(content, dict) or not isinstance(file, dict):
        return attached
    rest = {key: value for key, value in file.items() if key not in ("base64", "type")}
    return attached | {
        "content": {**content, "file": {**build_media_block(text_in(file, "type"), data), **rest}}
    }
