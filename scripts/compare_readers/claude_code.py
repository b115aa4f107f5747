"""Fold sessions of Claude Code, independently of the reader."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

from compare_readers.common import (
    MAIN,
    Fold,
    describe_call,
    describe_result,
    dump,
    read_json_lines,
)

_WRAPPER = r"<(system-reminder|ide_opened_file|ide_selection|ide_diagnostics)>"
_LEADING = re.compile(rf"\s*{_WRAPPER}.*?</\1>\s*", re.DOTALL)
_CLIENT_TEXT = re.compile(
    r"\s*(<(local-command-(caveat|stdout|stderr)|bash-(stdout|stderr)|task-notification|task-status|agent-notification|teammate-message"
    r"|user-prompt-submit-hook|session-start-hook|post-tool-use-hook|new-diagnostics)\b"
    r"|Caveat: The messages below were generated|\[Request interrupted by user"
    r"|This session is being continued from a previous conversation that ran out)"
)
_COMMAND = re.compile(r"\s*<(command-(name|message|args)|bash-input|user-memory-input)>")


def is_session(path: Path) -> bool:
    """Return whether a file is a session of its own and no subagent's."""
    return path.suffix == ".jsonl" and not path.name.startswith("agent-")


def fold_session(path: Path) -> Fold:
    """Fold one session file with its subagents."""
    folder = _SessionFolder(path)
    flags = [
        record["isSidechain"]
        for record in read_json_lines(path)
        if isinstance(record, dict) and "isSidechain" in record
    ]
    # The file of a subagent alone: its thread is the main one.
    folder.is_subagent = bool(flags) and all(flag is True for flag in flags)
    folder.read_file(path, MAIN)
    folder.finish()
    return folder.fold


class _SessionFolder:
    def __init__(self, path: Path) -> None:
        self.fold = Fold()
        self._path = path
        self.is_subagent = False
        self._seen: set[tuple[Any, ...]] = set()
        self._calls: dict[str, str] = {}
        """Ids of all calls, `open` or `answered`, and the thread of open ones."""
        self._call_threads: dict[str, str] = {}
        self._nameless_calls: Counter[str] = Counter()
        """How many calls without an id are open in each thread."""
        self._usage: dict[str, dict[str, int]] = {}
        self._chains: dict[str, str] = {}
        """Threads of sidechain records without an agent id, by uuid."""
        self._unnamed = 0
        self._read_agents: set[str] = set()
        self._queue: list[tuple[str, int]] = []
        """Texts typed while the agent worked, with their place in the main thread."""
        self._withdrawn: list[str] = []
        self._agent_files = self._find_agent_files()

    def _find_agent_files(self) -> dict[str, Path]:
        files = {}
        for pattern in (f"{self._path.stem}/subagents/**/agent-*.jsonl", "agent-*.jsonl"):
            for file in self._path.parent.glob(pattern):
                files.setdefault(file.stem.removeprefix("agent-"), file)
        return files

    def read_file(self, path: Path, thread: str) -> None:
        for record in read_json_lines(path):
            if isinstance(record, dict):
                self._read_record(record, thread)

    def _read_record(self, record: dict[str, Any], thread: str) -> None:
        kind = record.get("type")
        attachment = record.get("attachment")
        subkind = attachment.get("type") if isinstance(attachment, dict) else record.get("subtype")
        key = (record.get("uuid"), kind, subkind)
        if key[0] and key in self._seen:
            return
        self._seen.add(key)
        if record.get("isSidechain") is True and thread == MAIN and not self.is_subagent:
            thread = self._find_sidechain(record)
        if kind == "assistant":
            self._read_assistant(record, thread)
        elif kind == "user":
            self._read_user(record, thread)
        elif kind == "attachment" and subkind == "queued_command":
            self._read_queued(attachment, thread)
        elif kind == "system" and subkind == "local_command":
            self._add_text(record.get("content"), thread, [])
        elif kind == "queue-operation":
            self._read_queue_operation(record)
        elif kind == "progress":
            self._read_progress(record)

    def _find_sidechain(self, record: dict[str, Any]) -> str:
        if record.get("agentId"):
            self._read_agents.add(record["agentId"])
            self.fold.threads.setdefault(record["agentId"], [])
            return str(record["agentId"])
        thread = self._chains.get(record.get("parentUuid") or "")
        if thread is None:
            self._unnamed += 1
            thread = f"#{self._unnamed}"
        self._chains[record.get("uuid") or ""] = thread
        self.fold.threads.setdefault(thread, [])
        return thread

    def _read_progress(self, record: dict[str, Any]) -> None:
        data = record.get("data") or {}
        agent = data.get("agentId")
        if data.get("type") != "agent_progress" or agent in self._agent_files:
            return
        self.fold.threads.setdefault(agent, [])
        for message in [*(data.get("normalizedMessages") or []), data.get("message")]:
            if isinstance(message, dict):
                self._read_record(message, agent)

    def _read_assistant(self, record: dict[str, Any], thread: str) -> None:
        message = record.get("message") or {}
        if message.get("model") == "<synthetic>" or record.get("isApiErrorMessage") is True:
            return
        self._count_tokens(message)
        content = message.get("content")
        blocks = content if isinstance(content, list) else [content]
        for block in blocks:
            if isinstance(block, str):
                block = {"type": "text", "text": block}
            if not isinstance(block, dict):
                continue
            kind = block.get("type")
            if kind == "text":
                text = dump([block]) if block.get("citations") else block.get("text")
                if text:
                    self.fold.add(thread, "answer", text)
            elif kind in ("thinking", "redacted_thinking"):
                self.fold.add(thread, "thought", block.get("thinking") or "")
            elif kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
                self._add_call(block, thread)
            elif str(kind).endswith("tool_result"):
                self._add_result(block, thread)
            elif kind not in ("compaction", "fallback"):
                self.fold.add(thread, "answer", dump([block]))

    def _count_tokens(self, message: dict[str, Any]) -> None:
        usage = message.get("usage")
        if not isinstance(usage, dict):
            return
        read = usage.get("cache_read_input_tokens") or 0
        written = usage.get("cache_creation_input_tokens") or 0
        counts = {
            "input_tokens": (usage.get("input_tokens") or 0) + read + written,
            "output_tokens": usage.get("output_tokens") or 0,
            "cache_read_tokens": read,
            "cache_write_tokens": written,
        }
        # All lines of a message repeat its usage; the fullest copy is the right one.
        name = message.get("id") or f"line {len(self._usage)}"
        known = self._usage.get(name)
        if known is None or counts["output_tokens"] >= known["output_tokens"]:
            self._usage[name] = counts

    def _add_call(self, block: dict[str, Any], thread: str) -> None:
        call_id = block.get("id")
        if call_id and self._calls.get(call_id) == "open":
            return
        if call_id:
            self._calls[call_id] = "open"
            self._call_threads[call_id] = thread
        else:
            self._nameless_calls[thread] += 1
        text = describe_call(call_id, block.get("name") or "tool", block.get("input"))
        self.fold.add(thread, "call", text)

    def _add_result(self, block: dict[str, Any], thread: str) -> None:
        call_id = block.get("tool_use_id")
        output = block.get("content")
        if output is None or output == []:
            output = ""
        elif isinstance(output, list) and len(output) == 1:
            only = output[0]
            if isinstance(only, dict) and only.get("type") == "text" and not only.get("citations"):
                output = only.get("text")
        state = self._calls.get(call_id or "")
        if state == "answered":
            return
        if state == "open":
            self._calls[call_id] = "answered"
        if call_id is None and self._nameless_calls[thread]:
            self._nameless_calls[thread] -= 1
        self.fold.add(thread, "result", describe_result(call_id if state else None, output))

    def _read_user(self, record: dict[str, Any], thread: str) -> None:
        content = (record.get("message") or {}).get("content")
        if content is None:
            return
        blocks = content if isinstance(content, list) else [content]
        others: list[Any] = []
        for block in blocks:
            if isinstance(block, dict) and block.get("type") == "tool_result":
                self._add_user_blocks(others, record, thread)
                others = []
                self._read_agent_file(record)
                self._add_result(block, thread)
            else:
                others.append(block)
        self._add_user_blocks(others, record, thread)

    def _read_agent_file(self, record: dict[str, Any]) -> None:
        facts = record.get("toolUseResult")
        agent = facts.get("agentId") if isinstance(facts, dict) else None
        file = self._agent_files.get(agent or "")
        if file and agent not in self._read_agents:
            self._read_agents.add(agent)
            self.fold.threads.setdefault(agent, [])
            self.read_file(file, agent)

    def _add_user_blocks(self, blocks: list[Any], record: dict[str, Any], thread: str) -> None:
        if not blocks:
            return
        origin = record.get("origin")
        sender = origin.get("from") if isinstance(origin, dict) else None
        if record.get("isMeta") is True or record.get("isCompactSummary") is True or sender:
            self.fold.add(thread, "prompt" if sender else "client", _join(blocks))
            return
        plan = record.get("planContent")
        if isinstance(plan, str) and plan:
            self._add_plan(_join(blocks), plan, thread)
            return
        typed: list[Any] = []
        for block in blocks:
            text = block if isinstance(block, str) else None
            if isinstance(block, dict) and block.get("type") == "text":
                text = block.get("text")
            if text is None:
                typed.append(block)
            else:
                self._add_text(text, thread, typed)
        self._add_typed(typed, thread)

    def _add_plan(self, text: str, plan: str, thread: str) -> None:
        if plan in text:
            self.fold.add(thread, "prompt", plan)
        else:
            self.fold.add(thread, "client", text)

    def _add_text(self, text: Any, thread: str, typed: list[Any]) -> None:
        """Add one text; what a person typed is collected, for it may go with images."""
        if not isinstance(text, str):
            return
        if _COMMAND.match(text):
            self._add_typed(typed, thread)
            self._add_typed([_read_command(text)], thread)
            return
        if _CLIENT_TEXT.match(text):
            self._add_typed(typed, thread)
            self.fold.add(thread, "client", text)
            self._deliver(text)
            return
        before, words, after = _strip_wrappers(text)
        if before:
            self._add_typed(typed, thread)
        for part in before:
            self.fold.add(thread, "client", part)
        if words:
            typed.append(words)
        if after:
            self._add_typed(typed, thread)
        for part in after:
            self.fold.add(thread, "client", part)

    def _add_typed(self, typed: list[Any], thread: str) -> None:
        if not typed:
            return
        text = _join(typed)
        for part in typed:
            if isinstance(part, str):
                self._deliver(part)
        typed.clear()
        is_human = thread == MAIN and not self.is_subagent
        self.fold.add(thread, "human" if is_human else "prompt", text)

    def _read_queued(self, attachment: dict[str, Any], thread: str) -> None:
        prompt = attachment.get("prompt")
        mode = attachment.get("commandMode")
        is_task = isinstance(mode, str) and mode.startswith("task")
        if prompt:
            record = {
                "isMeta": attachment.get("isMeta") is True or is_task,
                "origin": attachment.get("origin"),
            }
            blocks = prompt if isinstance(prompt, list) else [prompt]
            if record["isMeta"]:
                self._deliver(_join(blocks))
            self._add_user_blocks(blocks, record, thread)

    def _read_queue_operation(self, record: dict[str, Any]) -> None:
        content = record.get("content")
        if not isinstance(content, str) or not content.strip():
            return
        if record.get("operation") == "enqueue":
            key = ("queue", record.get("timestamp"), content)
            if key in self._seen:
                return
            self._seen.add(key)
            self._queue.append((content, len(self.fold.threads.setdefault(MAIN, []))))
        elif record.get("operation") == "popAll":
            texts = [text for text, _ in self._queue]
            for text in texts:
                if text.strip() in content:
                    self._deliver(text)

    def _deliver(self, text: str) -> None:
        """Take from the queue what another record holds: one text, or all of them, joined."""
        for place, (queued, _) in enumerate(self._queue):
            if queued.strip() == text.strip():
                del self._queue[place]
                return
        for first in range(len(self._queue)):
            for last in range(first + 2, len(self._queue) + 1):
                texts = [queued.strip() for queued, _ in self._queue[first:last]]
                if "\n".join(texts) == text.strip():
                    del self._queue[first:last]
                    return

    def finish(self) -> None:
        """Add what is known only at the end: files that nothing named, words in the queue."""
        for agent, file in self._agent_files.items():
            if agent not in self._read_agents and self._belongs(file):
                self._read_agents.add(agent)
                self.fold.threads.setdefault(agent, [])
                self.read_file(file, agent)
        main = self.fold.threads.setdefault(MAIN, [])
        for text, place in reversed(self._queue):
            words = Fold()
            extra = _SessionFolder.__new__(_SessionFolder)
            extra.fold, extra._queue, extra.is_subagent = words, [], False
            typed: list[Any] = []
            extra._add_text(text, MAIN, typed)
            extra._add_typed(typed, MAIN)
            main[place:place] = words.threads.get(MAIN, [])
        for call_id, state in self._calls.items():
            if state == "open":
                self.fold.add(self._call_threads[call_id], "missing", call_id)
        for thread, count in self._nameless_calls.items():
            for _ in range(count):
                self.fold.add(thread, "missing", str(None))
        for counts in self._usage.values():
            self.fold.add_tokens(counts)

    def _belongs(self, file: Path) -> bool:
        if file.parent != self._path.parent:
            return True
        sessions = {record.get("sessionId") for record in read_json_lines(self._path)}
        first = next(read_json_lines(file), {})
        return first.get("sessionId") in sessions


def _join(blocks: list[Any]) -> str:
    """Return blocks as an export has them: a text if there is nothing else."""
    full = [
        {"type": "text", "text": block} if isinstance(block, str) else block for block in blocks
    ]
    if len(full) == 1 and isinstance(full[0], dict) and full[0].get("type") == "text":
        return str(full[0].get("text"))
    return dump(full)


def _read_command(text: str) -> str:
    """Return a command as it was typed."""
    for tag in ("bash-input", "user-memory-input"):
        found = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        if found:
            return found[1]
    name = re.search(r"<command-name>(.*?)</command-name>", text, re.DOTALL)
    message = re.search(r"<command-message>(.*?)</command-message>", text, re.DOTALL)
    arguments = re.search(r"<command-args>(.*?)</command-args>", text, re.DOTALL)
    if name is None and message is None:
        return text
    spoken = name[1] if name else f"/{message[1]}" if message else ""
    return f"{spoken} {arguments[1]}" if arguments and arguments[1] else spoken


def _strip_wrappers(text: str) -> tuple[list[str], str, list[str]]:
    """Return what the client wrote before a person's words, the words, and what follows."""
    before = []
    while found := _LEADING.match(text):
        before.append(found[0])
        text = text[found.end() :]
    after: list[str] = []
    while found := re.search(rf"</{_WRAPPER[1:]}\s*\Z", text):
        start = text.rfind(f"<{found[1]}>")
        if start < 0:
            break
        start = len(text[:start].rstrip())
        after.insert(0, text[start:])
        text = text[:start]
    return before, text, after
