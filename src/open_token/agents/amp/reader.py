"""One Amp thread told message by message."""

from typing import Any

from open_token.agents.amp.detect import folder_of, tree_of
from open_token.builder.draft import Draft
from open_token.formats.shared.anthropic_blocks import add_answer, parse_content
from open_token.formats.shared.fields import as_text, pick_fields
from open_token.formats.shared.inline_subagents import InlineAgent, InlineSubagents
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.providers import ProviderTracker
from open_token.formats.shared.token_usage import build_usage
from open_token.formats.shared.user_shell_commands import add_command_output, add_user_command
from open_token.jsontools.timestamps import from_epoch, to_utc
from open_token.model.document import Usage
from open_token.sources.source import Source

Message = dict[str, Any]
_BESIDE = {"fileMentions": "file_mentions", "discoveredGuidanceFiles": "guidance_files"}
_USUAL_ENDS = ("end_turn", "tool_use", None)


class Thread:
    """Tells a thread."""

    def __init__(self, thread: dict[str, Any], draft: Draft) -> None:
        self._thread = thread
        self._draft = draft
        self._client = draft.get_actor("system", "Amp")
        self._providers = ProviderTracker()
        self._main = InlineAgent()
        self._spans = InlineSubagents(draft)
        self._asked: dict[str, str] = {}
        """What calls ask for in words, by their keys: the reason of a subagent."""
        self._ledger = _ledger(thread.get("usageLedger"))

    def read(self, cwd: str | None, tree: dict[str, Any]) -> None:
        """Tell everything."""
        self._frame(cwd, tree)
        for number, message in enumerate(_list(self._thread.get("messages"))):
            self._tell(message, f"message {number}")
        for number, entry in enumerate(_list(self._thread.get("queuedMessages"))):
            self._queued(entry, f"queued message {number}")
        self._spans.finish()
        self._providers.set_provider(self._draft.conversation)

    def _frame(self, cwd: str | None, tree: dict[str, Any]) -> None:
        """What the thread is, where it runs, and which threads it is tied to."""
        thread, conversation = self._thread, self._draft.conversation
        if name := as_text(thread.get("id")):
            conversation["id"] = name
        if title := as_text(thread.get("title")):
            conversation["title"] = title
        if created := from_epoch(thread.get("created"), 0.001):
            conversation["started_at"] = created
        platform = _inside(thread, "env", "initial", "platform")
        client = as_text(_inside(platform, "client"))
        conversation["source_runtime"] = (
            "cli" if client is None or "cli" in client.lower() else "ide"
        )
        repository = tree.get("repository")
        facts = {
            "cwd": cwd,
            "repository": as_text(_inside(repository, "url")),
            "git_branch": as_text(_inside(repository, "ref")),
            "head_commit": as_text(_inside(repository, "sha")),
            "client": client,
            "version": as_text(_inside(platform, "clientVersion")),
            "agent_mode": as_text(thread.get("agentMode")),
            "relationships": thread.get("relationships") or None,
        }
        if data := pick_fields(facts, *facts):
            self._draft.add_annotation({"kind": "context", **data}, actor=self._client, ts=created)

    def _tell(self, message: Any, place: str) -> None:
        if type(message) is not dict:
            self._draft.note_omission("skipped-record", place, "a message that is no object")
            return
        agent = self._agent_of(message)
        agent.records += 1
        role = message.get("role")
        if agent.muted:
            return
        if role == "user":
            self._user(message, agent, place)
        elif role == "assistant":
            self._assistant(message, agent, place)
        elif role == "info":
            self._info(message, agent, place)
        else:
            self._draft.note_omission("unknown-role", place, f"role {format_kind(role)}")

    def _agent_of(self, message: Message) -> InlineAgent:
        """Messages of a subagent name the call that it serves; its span opens with the first of
        them."""
        call = as_text(message.get("parentToolUseId")) or as_text(message.get("parentToolUseID"))
        if call is None:
            return self._main
        agent = self._spans.find(call)
        if agent is None:
            agent = InlineAgent(name="subagent", instance=call, call=call)
            reason = self._asked.get(call)
            about = {"spawn_reason": reason} if reason else {}
            self._spans.start(agent, about, self._speaker(self._main), _ts_of(message), self._main)
        return agent

    def _speaker(self, agent: InlineAgent, model: str | None = None) -> str:
        if not agent.actor or (model and model != agent.model):
            agent.model = model or agent.model
            provider = self._providers.add_model(None, agent.model)
            agent.actor = self._draft.get_actor(
                "model",
                agent.name,
                provider=provider,
                model=agent.model,
                instance_id=agent.instance,
            )
        return agent.actor

    def _user(self, message: Message, agent: InlineAgent, place: str) -> None:
        """What was typed, and in the same list the results of the calls before."""
        ts = _ts_of(message)
        said: list[Any] = []
        for block in _blocks(message.get("content")):
            if _kind(block) == "tool_result":
                self._say(said, agent, ts)
                said = []
                self._result(block, agent, ts, place)
            else:
                said.append(_with_media(block))
        self._say(said, agent, ts)
        for key, name in _BESIDE.items():
            if given := message.get(key):
                block = {"type": name, "content": given}
                self._draft.add_message(
                    "user", [block], self._client, ts=ts, visibility="internal", span=agent.span
                )
        if message.get("userState"):
            self._draft.note_omission("bookkeeping", place, "the state of the editor")

    def _say(self, blocks: list[Any], agent: InlineAgent, ts: str | None) -> None:
        if blocks:
            actor = (
                self._speaker(self._main) if agent.call else self._draft.get_actor("human", "user")
            )
            words = parse_content(blocks)
            self._draft.add_message(
                "user", words, actor, ts=ts, visibility=agent.visibility, span=agent.span
            )

    def _result(
        self, block: dict[str, Any], agent: InlineAgent, ts: str | None, place: str
    ) -> None:
        name = as_text(block.get("toolUseID")) or as_text(block.get("tool_use_id"))
        run = block.get("run")
        told = run_of(run if isinstance(run, dict) else block)
        if told is None:
            self._draft.note_omission("unfinished-run", place, "a tool that had not finished")
            return
        if served := self._spans.find(name):
            self._spans.end(served, {}, ts)
        output, facts = told
        self._draft.add_tool_result(name, output, ts=ts, span=agent.span, facts=facts or None)
        if any(_inside(run, key) for key in ("progress", "trackFiles", "~debug")):
            self._draft.note_omission(
                "side-data", place, "the progress of a tool and the files it touched"
            )

    def _assistant(self, message: Message, agent: InlineAgent, place: str) -> None:
        usage = message.get("usage")
        counted = (
            usage
            if isinstance(usage, dict)
            else self._ledger.get(str(message.get("messageId")), {})
        )
        ts = _ts_of(message) or to_utc(counted.get("timestamp"))
        actor, spent = self._speaker(agent, as_text(counted.get("model"))), _usage(counted)
        add_answer(
            self._draft,
            [_with_media(block) for block in _blocks(message.get("content"))],
            actor,
            ts=ts,
            span=agent.span,
            usage=spent,
            group=place,
            visibility=agent.visibility,
            called=self._called,
        )
        price = counted.get("credits")
        if type(price) in (int, float) and price:
            self._draft.add_annotation(
                {"kind": "cost", "credits": price}, actor=actor, ts=ts, span=agent.span
            )
        self._end(message.get("state"), actor, agent, ts)

    def _called(self, key: str, block: dict[str, Any]) -> None:
        given = block.get("input")
        if words := as_text(_inside(given, "description")) or as_text(_inside(given, "prompt")):
            self._asked[key] = words

    def _end(self, state: Any, actor: str, agent: InlineAgent, ts: str | None) -> None:
        """How an answer ended, when not as usual."""
        how, reason = _inside(state, "type"), _inside(state, "stopReason")
        if how == "cancelled":
            self._draft.add_annotation({"kind": "aborted"}, actor=actor, ts=ts, span=agent.span)
        elif how == "error":
            self._draft.add_annotation(
                {"kind": "api_error", "error": state}, actor=actor, ts=ts, span=agent.span
            )
        elif how == "streaming":
            self._draft.add_annotation(
                {"kind": "message_facts", "broke_off": True}, actor=actor, ts=ts, span=agent.span
            )
        elif reason not in _USUAL_ENDS:
            self._draft.add_annotation(
                {"kind": "stop", "reason": reason}, actor=actor, ts=ts, span=agent.span
            )

    def _info(self, message: Message, agent: InlineAgent, place: str) -> None:
        """What is neither the person's nor the model's: summaries, commands run by hand."""
        ts = _ts_of(message)
        for block in _blocks(message.get("content")):
            kind = _kind(block)
            if kind == "manual_bash_invocation":
                self._command(block, agent, ts)
            elif kind == "summary":
                self._summary(block.get("summary"), agent, ts)
            else:
                words = parse_content([_with_media(block)])
                self._draft.add_message(
                    "user", words, self._client, ts=ts, visibility="internal", span=agent.span
                )

    def _command(self, block: dict[str, Any], agent: InlineAgent, ts: str | None) -> None:
        run = block.get("toolRun")
        output, facts = run_of(run if isinstance(run, dict) else {}) or ("", {})
        given = block.get("args")
        command = as_text(_inside(given, "cmd")) or as_text(_inside(given, "command")) or ""
        facts |= {
            "cwd": as_text(_inside(given, "cwd")),
            "hidden_from_model": block.get("hidden") or None,
        }
        add_user_command(
            self._draft,
            command,
            self._draft.get_actor("human", "user"),
            facts,
            ts=ts,
            span=agent.span,
        )
        words = output if isinstance(output, str | list) else [output]
        add_command_output(self._draft, words, self._client, ts=ts, span=agent.span)

    def _summary(self, summary: Any, agent: InlineAgent, ts: str | None) -> None:
        """The words the thread goes on with, or the thread that holds them."""
        words = as_text(_inside(summary, "summary"))
        about = {"kind": "compaction", **({} if words else {"thread": _inside(summary, "thread")})}
        parent = None
        if words:
            parent = self._draft.add_message(
                "user", words, self._client, ts=ts, visibility="internal", span=agent.span
            )
        self._draft.add_annotation(about, parent=parent, actor=self._client, ts=ts, span=agent.span)

    def _queued(self, entry: Any, place: str) -> None:
        """What was typed while the model worked and has not been sent yet."""
        message = _inside(entry, "queuedMessage")
        first = self._draft.count
        self._tell(message if message is not None else entry, place)
        if self._draft.count > first:
            data = {"kind": "message_facts", "queued": True}
            self._draft.add_annotation(data, actor=self._client)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _blocks(content: Any) -> list[Any]:
    return (
        content
        if isinstance(content, list)
        else [{"type": "text", "text": content}]
        if content
        else []
    )


def _kind(block: Any) -> Any:
    return block.get("type") if type(block) is dict and isinstance(block.get("type"), str) else None


def _inside(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _ts_of(message: Message) -> str | None:
    """Prompts say when they were sent; nothing else has a time of its own."""
    return from_epoch(_inside(message, "meta", "sentAt"), 0.001)


def _with_media(block: Any) -> Any:
    """A picture as the API has it: Amp writes the names in its own way."""
    source = _inside(block, "source")
    if not isinstance(source, dict) or "mediaType" not in source:
        return block
    return {**block, "source": {**source, "media_type": source["mediaType"]}}


def _usage(usage: dict[str, Any]) -> Usage | None:
    """Amp's figures in the export's terms; the ledger has names of its own for the same."""
    tokens = usage.get("tokens")
    given = {**usage, **tokens} if isinstance(tokens, dict) else usage
    names = (
        "inputTokens",
        "outputTokens",
        "cacheReadInputTokens",
        "cacheCreationInputTokens",
        "totalInputTokens",
    )
    fresh, output, read, written, total = (given.get(name) for name in names)
    fresh, output = given.get("input", fresh), given.get("output", output)
    if type(total) is not int:
        parts = [part for part in (fresh, read, written) if type(part) is int and part >= 0]
        total = sum(parts) if parts else None
    return build_usage(
        input_tokens=total, output_tokens=output, cache_read_tokens=read, cache_write_tokens=written
    )


def _ledger(ledger: Any) -> dict[str, dict[str, Any]]:
    """What was spent, by the message it brought, for messages that do not say it themselves."""
    found: dict[str, dict[str, Any]] = {}
    for event in _list(_inside(ledger, "events")):
        target = _inside(event, "toMessageId")
        if type(target) in (int, str):
            found[str(target)] = event
    return found


_UNFINISHED = ("queued", "in-progress", "blocked-on-user")
_SHELL = frozenset(("output", "exitCode", "truncation", "cwd"))


def run_of(run: dict[str, Any]) -> tuple[Any, dict[str, Any]] | None:
    """Output and facts; None when the run is not over and has brought nothing."""
    status = run.get("status")
    facts: dict[str, Any] = {}
    if isinstance(status, str) and status not in ("done", "success"):
        facts["status"] = status
    if status in ("error", "cancelled", "rejected-by-user"):
        facts["is_error"] = True
    if status == "rejected-by-user":
        facts["rejected"] = True
    output = _output(run, facts)
    return (
        None
        if output is None and status in _UNFINISHED
        else (output if output is not None else "", facts)
    )


def _output(run: dict[str, Any], facts: dict[str, Any]) -> Any:
    """The result, else why there is none, else what came before it was stopped."""
    if (result := run.get("result")) is not None:
        return _shell_output(result, facts)
    error = run.get("error")
    if isinstance(error, dict):
        facts |= {
            name: error[name] for name in ("code", "errorCode") if error.get(name) is not None
        }
        error = error.get("message", error)
    for found in (error, run.get("reason"), run.get("output"), run.get("content")):
        if found is not None:
            return found
    progress = run.get("progress")
    return progress.get("output", progress) if isinstance(progress, dict) else progress


def _shell_output(result: Any, facts: dict[str, Any]) -> Any:
    """A command's output without its exit code, which is a fact about it."""
    if (
        not isinstance(result, dict)
        or not isinstance(result.get("output"), str)
        or not _SHELL.issuperset(result)
    ):
        return result
    if result.get("exitCode") is not None:
        facts["exit_code"] = result["exitCode"]
    facts |= {name: result[name] for name in ("truncation", "cwd") if result.get(name)}
    return result["output"]


def read(source: Source, draft: Draft) -> None:
    """Read the thread into the draft."""
    threads = [value for _, value in source.records() if isinstance(value, dict)]
    for number in range(1, len(threads)):
        draft.note_omission(
            "skipped-record", f"record {number + 1}", "what stands behind the thread"
        )
    thread = threads[0] if threads else {}
    tree = tree_of(thread)
    Thread(thread, draft).read(folder_of(tree), tree)
