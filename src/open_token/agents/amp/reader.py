"""Read an Amp thread."""

from typing import Any

from open_token.agents.amp.detect import get_directory, get_working_tree
from open_token.builder.draft import Draft
from open_token.formats.shared.anthropic_blocks import add_answer, parse_content
from open_token.formats.shared.fields import as_text, drop_nulls, pick_fields
from open_token.formats.shared.inline_subagents import InlineAgent, InlineSubagents
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.providers import ProviderTracker
from open_token.formats.shared.token_usage import build_usage
from open_token.formats.shared.user_shell_commands import add_command_output, add_user_command
from open_token.jsontools.timestamps import from_epoch, to_utc
from open_token.model.document import Usage
from open_token.sources.source import Source

Message = dict[str, Any]
_CONTEXT_FIELDS = {"fileMentions": "file_mentions", "discoveredGuidanceFiles": "guidance_files"}
"""Fields of a prompt with what Amp sent along, and the types of their blocks."""
_NORMAL_STOPS = ("end_turn", "tool_use", None)
# States of a tool run. A thread is written while tools run, so a run may have no output yet.
_UNFINISHED_STATES = ("queued", "in-progress", "blocked-on-user")
_FAILED_STATES = ("error", "cancelled", "rejected-by-user")
_SHELL_FIELDS = frozenset(("output", "exitCode", "truncation", "cwd"))


def read(source: Source, draft: Draft) -> None:
    """Read the thread into the draft."""
    threads = [value for _, value in source.records() if isinstance(value, dict)]
    for number in range(2, len(threads) + 1):
        draft.note_omission("skipped-record", f"record {number}", "record after the thread")
    _ThreadReader(threads[0] if threads else {}, draft).read()


class _ThreadReader:
    """Reads a thread."""

    def __init__(self, thread: dict[str, Any], draft: Draft) -> None:
        self._thread = thread
        self._draft = draft
        self._client = draft.get_actor("system", "Amp")
        self._providers = ProviderTracker()
        self._main = InlineAgent()
        self._spans = InlineSubagents(draft)
        self._descriptions: dict[str, str] = {}
        """The description or prompt of calls, by their keys: why a subagent was started."""
        self._ledger = _index_ledger(thread.get("usageLedger"))

    def read(self) -> None:
        """Read all messages, and those that were queued."""
        self._read_context()
        for number, message in enumerate(_to_list(self._thread.get("messages"))):
            self._read_message(message, f"message {number}")
        for number, entry in enumerate(_to_list(self._thread.get("queuedMessages"))):
            self._read_queued_message(entry, f"queued message {number}")
        self._spans.finish()
        self._providers.set_provider(self._draft.conversation)

    def _read_context(self) -> None:
        """Read what the thread is, where it runs, and which threads it is related to."""
        thread = self._thread
        conversation = self._draft.conversation
        thread_id = as_text(thread.get("id"))
        if thread_id:
            conversation["id"] = thread_id
        title = as_text(thread.get("title"))
        if title:
            conversation["title"] = title
        started_at = from_epoch(thread.get("created"), 0.001)
        if started_at:
            conversation["started_at"] = started_at
        # The environment in which the thread began; the command line and the editors share threads.
        platform = _get_inner(thread, "env", "initial", "platform")
        client = as_text(_get_inner(platform, "client"))
        is_cli = client is None or "cli" in client.lower()
        conversation["source_runtime"] = "cli" if is_cli else "ide"
        tree = get_working_tree(thread)
        repository = tree.get("repository")
        facts = {
            "cwd": get_directory(tree),
            "repository": as_text(_get_inner(repository, "url")),
            "git_branch": as_text(_get_inner(repository, "ref")),
            "head_commit": as_text(_get_inner(repository, "sha")),
            "client": client,
            "version": as_text(_get_inner(platform, "clientVersion")),
            "agent_mode": as_text(thread.get("agentMode")),
            "relationships": thread.get("relationships") or None,
        }
        data = drop_nulls(facts)
        if data:
            self._draft.add_annotation(
                {"kind": "context", **data}, actor=self._client, ts=started_at
            )

    def _read_message(self, message: Any, position: str) -> None:
        if type(message) is not dict:
            self._draft.note_omission("skipped-record", position, "message that is not an object")
            return
        agent = self._find_agent(message)
        agent.records += 1
        if agent.muted:
            return
        role = message.get("role")
        if role == "user":
            self._read_user_message(message, agent, position)
        elif role == "assistant":
            self._read_response(message, agent, position)
        elif role == "info":
            self._read_info(message, agent)
        else:
            self._draft.note_omission("unknown-role", position, f"role {format_kind(role)}")

    def _find_agent(self, message: Message) -> InlineAgent:
        """Return the agent of a message; start the span of a subagent with its first message."""
        # Messages of a subagent are in the list of its parent and name its call, in two spellings.
        call = as_text(message.get("parentToolUseId")) or as_text(message.get("parentToolUseID"))
        if call is None:
            return self._main
        agent = self._spans.find(call)
        if agent is None:
            agent = InlineAgent(name="subagent", instance=call, call=call)
            data = {}
            if call in self._descriptions:
                data["spawn_reason"] = self._descriptions[call]
            actor = self._get_model_actor(self._main)
            self._spans.start(agent, data, actor, _get_time(message), self._main)
        return agent

    def _get_model_actor(self, agent: InlineAgent, model: str | None = None) -> str:
        if not agent.actor or (model and model != agent.model):
            agent.model = model or agent.model
            agent.actor = self._draft.get_actor(
                "model",
                agent.name,
                provider=self._providers.add_model(None, agent.model),
                model=agent.model,
                instance_id=agent.instance,
            )
        return agent.actor

    def _read_user_message(self, message: Message, agent: InlineAgent, position: str) -> None:
        """Read typed text, tool results, and the context that Amp sent along."""
        ts = _get_time(message)
        prompt: list[Any] = []
        for block in _to_blocks(message.get("content")):
            if _get_kind(block) == "tool_result":
                self._add_prompt(prompt, agent, ts)
                prompt = []
                self._read_result(block, agent, ts, position)
            else:
                prompt.append(_convert_media(block))
        self._add_prompt(prompt, agent, ts)
        # The model sees these files with the prompt.
        for field, kind in _CONTEXT_FIELDS.items():
            if message.get(field):
                self._add_injected([{"type": kind, "content": message[field]}], agent, ts)
        if message.get("userState"):
            self._draft.note_omission("bookkeeping", position, "the state of the editor")

    def _add_prompt(self, blocks: list[Any], agent: InlineAgent, ts: str | None) -> None:
        if not blocks:
            return
        # The prompt of a subagent was written by the model that called it.
        if agent.call:
            actor = self._get_model_actor(self._main)
        else:
            actor = self._draft.get_actor("human", "user")
        self._draft.add_message(
            "user",
            parse_content(blocks),
            actor,
            ts=ts,
            visibility=agent.visibility,
            span=agent.span,
        )

    def _add_injected(self, content: str | list[Any], agent: InlineAgent, ts: str | None) -> Any:
        return self._draft.add_message(
            "user", content, self._client, ts=ts, visibility="internal", span=agent.span
        )

    def _read_result(
        self, block: Message, agent: InlineAgent, ts: str | None, position: str
    ) -> None:
        # Amp writes `toolUseID` and a `run`; a block of the Anthropic API has the output itself.
        call_id = as_text(block.get("toolUseID")) or as_text(block.get("tool_use_id"))
        run = block.get("run")
        result = _parse_run(run if isinstance(run, dict) else block)
        if result is None:
            self._draft.note_omission("unfinished-run", position, "tool that had not finished")
            return
        subagent = self._spans.find(call_id)
        if subagent:
            self._spans.end(subagent, {}, ts)
        output, facts = result
        self._draft.add_tool_result(call_id, output, ts=ts, span=agent.span, facts=facts or None)
        if any(_get_inner(run, key) for key in ("progress", "trackFiles", "~debug")):
            self._draft.note_omission(
                "side-data", position, "progress of a tool and the files it touched"
            )

    def _read_response(self, message: Message, agent: InlineAgent, position: str) -> None:
        # Some versions store the usage in a ledger, with a time that the message lacks.
        usage = message.get("usage")
        if not isinstance(usage, dict):
            usage = self._ledger.get(str(message.get("messageId")), {})
        ts = _get_time(message) or to_utc(usage.get("timestamp"))
        actor = self._get_model_actor(agent, as_text(usage.get("model")))
        add_answer(
            self._draft,
            [_convert_media(block) for block in _to_blocks(message.get("content"))],
            actor,
            ts=ts,
            span=agent.span,
            usage=_parse_usage(usage),
            group=position,
            visibility=agent.visibility,
            called=self._add_description,
        )
        price = usage.get("credits")
        if type(price) in (int, float) and price:
            data = {"kind": "cost", "credits": price}
            self._draft.add_annotation(data, actor=actor, ts=ts, span=agent.span)
        ending = _describe_ending(message.get("state"))
        if ending:
            self._draft.add_annotation(ending, actor=actor, ts=ts, span=agent.span)

    def _add_description(self, key: str, block: dict[str, Any]) -> None:
        given = block.get("input")
        text = as_text(_get_inner(given, "description")) or as_text(_get_inner(given, "prompt"))
        if text:
            self._descriptions[key] = text

    def _read_info(self, message: Message, agent: InlineAgent) -> None:
        """Read what is neither from the user nor from the model: summaries, manual commands."""
        ts = _get_time(message)
        for block in _to_blocks(message.get("content")):
            kind = _get_kind(block)
            if kind == "manual_bash_invocation":
                self._read_command(block, agent, ts)
            elif kind == "summary":
                self._read_summary(block.get("summary"), agent, ts)
            else:
                self._add_injected(parse_content([_convert_media(block)]), agent, ts)

    def _read_command(self, block: dict[str, Any], agent: InlineAgent, ts: str | None) -> None:
        """Read a command that the person ran in the client, with its output."""
        run = block.get("toolRun")
        output: Any = ""
        facts: dict[str, Any] = {}
        result = _parse_run(run) if isinstance(run, dict) else None
        if result is not None:
            output, facts = result
        given = block.get("args")
        # The command is under one of two names.
        command = as_text(_get_inner(given, "cmd")) or as_text(_get_inner(given, "command")) or ""
        facts["cwd"] = as_text(_get_inner(given, "cwd"))
        facts["hidden_from_model"] = block.get("hidden") or None
        user = self._draft.get_actor("human", "user")
        add_user_command(self._draft, command, user, facts, ts=ts, span=agent.span)
        if not isinstance(output, str | list):
            output = [output]
        add_command_output(self._draft, output, self._client, ts=ts, span=agent.span)

    def _read_summary(self, summary: Any, agent: InlineAgent, ts: str | None) -> None:
        """Read the summary that the thread continues with, or the thread that holds it."""
        data: dict[str, Any] = {"kind": "compaction"}
        parent = None
        text = as_text(_get_inner(summary, "summary"))
        if text:
            parent = self._add_injected(text, agent, ts)
        else:
            data["thread"] = _get_inner(summary, "thread")
        self._draft.add_annotation(data, parent=parent, actor=self._client, ts=ts, span=agent.span)

    def _read_queued_message(self, entry: Any, position: str) -> None:
        """Read a message that was typed while the model worked, and was not sent yet."""
        message = _get_inner(entry, "queuedMessage")
        if message is None:
            message = entry
        first = self._draft.count
        self._read_message(message, position)
        if self._draft.count > first:
            data = {"kind": "message_facts", "queued": True}
            self._draft.add_annotation(data, actor=self._client)


def _describe_ending(state: Any) -> dict[str, Any] | None:
    """Return the annotation of a response that did not end normally."""
    kind = _get_inner(state, "type")
    if kind == "cancelled":
        return {"kind": "aborted"}
    if kind == "error":
        return {"kind": "api_error", "error": state}
    # The client stopped before the response was complete.
    if kind == "streaming":
        return {"kind": "message_facts", "broke_off": True}
    reason = _get_inner(state, "stopReason")
    if reason not in _NORMAL_STOPS:
        return {"kind": "stop", "reason": reason}
    return None


def _to_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _to_blocks(content: Any) -> list[Any]:
    if isinstance(content, list):
        return content
    return [{"type": "text", "text": content}] if content else []


def _get_kind(block: Any) -> str | None:
    kind = block.get("type") if type(block) is dict else None
    return kind if isinstance(kind, str) else None


def _get_inner(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _get_time(message: Message) -> str | None:
    """Return when a prompt was sent; other messages have no time."""
    return from_epoch(_get_inner(message, "meta", "sentAt"), 0.001)


def _convert_media(block: Any) -> Any:
    """Return an image with the field names of the API, which Amp writes in camel case."""
    source = _get_inner(block, "source")
    if not isinstance(source, dict) or "mediaType" not in source:
        return block
    return {**block, "source": {**source, "media_type": source["mediaType"]}}


def _parse_usage(usage: dict[str, Any]) -> Usage | None:
    """Return the token counts of a message or of an entry of the ledger."""
    tokens = usage.get("tokens")
    if isinstance(tokens, dict):
        usage = {**usage, **tokens}
    cache_read = usage.get("cacheReadInputTokens")
    cache_write = usage.get("cacheCreationInputTokens")
    # The ledger calls the first two `input` and `output`.
    uncached = usage.get("input", usage.get("inputTokens"))
    output = usage.get("output", usage.get("outputTokens"))
    total = usage.get("totalInputTokens")
    if type(total) is not int:
        total = _add_counts(uncached, cache_read, cache_write)
    return build_usage(
        input_tokens=total,
        output_tokens=output,
        cache_read_tokens=cache_read,
        cache_write_tokens=cache_write,
    )


def _add_counts(*counts: Any) -> int | None:
    """Return the sum of those that are counts: cached and other input, where no total is given."""
    known = [count for count in counts if type(count) is int and count >= 0]
    return sum(known) if known else None


def _index_ledger(ledger: Any) -> dict[str, dict[str, Any]]:
    """Return the entries of the usage ledger by the id of the message that they belong to."""
    entries: dict[str, dict[str, Any]] = {}
    for entry in _to_list(_get_inner(ledger, "events")):
        message_id = _get_inner(entry, "toMessageId")
        if type(message_id) in (int, str):
            entries[str(message_id)] = entry
    return entries


def _parse_run(run: dict[str, Any]) -> tuple[Any, dict[str, Any]] | None:
    """Return the output of a run and facts about it; None for a run without output so far."""
    status = run.get("status")
    facts: dict[str, Any] = {}
    if isinstance(status, str) and status not in ("done", "success"):
        facts["status"] = status
    if status in _FAILED_STATES:
        facts["is_error"] = True
    if status == "rejected-by-user":
        facts["rejected"] = True
    output = _get_output(run, facts)
    if output is None:
        if status in _UNFINISHED_STATES:
            return None
        output = ""
    return output, facts


def _get_output(run: dict[str, Any], facts: dict[str, Any]) -> Any:
    """Return the result, or why there is none, or what came before the run was stopped."""
    result = run.get("result")
    if result is not None:
        return _get_shell_output(result, facts)
    error = run.get("error")
    # Errors are an object or a text.
    if isinstance(error, dict):
        facts |= pick_fields(error, "code", "errorCode")
        error = error.get("message", error)
    # A rejected run has a reason; blocks of the API have `content` and no run.
    for output in (error, run.get("reason"), run.get("output"), run.get("content")):
        if output is not None:
            return output
    # A run that was stopped has only what it had shown so far.
    progress = run.get("progress")
    if isinstance(progress, dict):
        return progress.get("output", progress)
    return progress


def _get_shell_output(result: Any, facts: dict[str, Any]) -> Any:
    """Return the text of a shell result, and add its exit code to the facts."""
    # An object with any other field is the result of another tool, and stays whole.
    if not isinstance(result, dict) or not _SHELL_FIELDS.issuperset(result):
        return result
    if not isinstance(result.get("output"), str):
        return result
    if result.get("exitCode") is not None:
        facts["exit_code"] = result["exitCode"]
    for name in ("truncation", "cwd"):
        if result.get(name):
            facts[name] = result[name]
    return result["output"]
