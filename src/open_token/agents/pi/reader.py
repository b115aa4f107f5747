"""Read a Pi session entry by entry; entries off the current branch are dropped at the end."""

from array import array
from collections.abc import Callable, Iterator
from typing import Any

from open_token.agents.pi.messages import MessageReader
from open_token.builder.draft import Draft
from open_token.formats.shared.fields import as_text, drop_nulls
from open_token.formats.shared.notes import format_kind
from open_token.jsontools.timestamps import from_epoch, to_utc
from open_token.sources.source import Source

Entry = dict[str, Any]
Handler = Callable[[Entry, str | None, int], None]


class SessionReader:
    """Reads one session file."""

    def __init__(self, source: Source, draft: Draft, client: str = "Pi") -> None:
        self._source = source
        self._draft = draft
        self._client = draft.get_actor("system", client)
        self._messages = MessageReader(draft, self._client)
        self._tree = EntryTree()
        self._handlers: dict[str, Handler] = {
            "message": self._read_message,
            "model_change": self._read_model_change,
            "thinking_level_change": self._read_thinking_level,
            "compaction": self._read_compaction,
            "context_edit": self._read_context_edit,
            "usage": self._read_usage,
            "branch_summary": self._read_branch_summary,
            "custom_message": self._read_custom_message,
            "label": self._read_label,
            "session_info": self._read_name,
            "custom": self._read_extension_state,
        }

    def read(self) -> None:
        """Read the whole session into the draft."""
        draft = self._draft
        tree = self._tree
        for number, entry in self._source.records():
            if type(entry) is not dict:
                draft.note_omission("skipped-record", f"line {number}", "line is not a JSON object")
            elif entry.get("type") == "session":
                # A session that was branched off in version 1 has its header after the messages
                # that it copied.
                tree.add_header(draft.count)
                self._read_header(entry)
            else:
                if not tree.add(entry, draft.count):
                    draft.note_omission(
                        "broken-chain", f"line {number}", "parent entry is not in the source"
                    )
                self._read_entry(entry, number)
        data = {
            "kind": "abandoned_branch",
            "detail": "the session continued from an earlier entry",
        }
        for positions in tree.find_abandoned(draft.count):
            draft.drop_branch(positions.start, positions.stop, data, self._client)
        draft.conversation["source_runtime"] = "cli"
        self._messages.providers.set_provider(draft.conversation)

    def _read_entry(self, entry: Entry, number: int) -> None:
        kind = entry.get("type")
        handler = self._handlers.get(kind) if isinstance(kind, str) else None
        if handler is None:
            self._draft.note_omission(
                "unknown-record", f"line {number}", f"entry {format_kind(kind)}"
            )
        else:
            handler(entry, to_utc(entry.get("timestamp")), number)

    def _read_header(self, entry: Entry) -> None:
        """Read the header; that of a branch's copy is later than the entries it begins with."""
        conversation = self._draft.conversation
        ts = to_utc(entry.get("timestamp"))
        session_id = as_text(entry.get("id"))
        if session_id and "id" not in conversation:
            conversation["id"] = session_id
            if ts:
                conversation["started_at"] = ts
        # Version 1 names the parent `branchedFrom`, and the model in the header; since version 3
        # the model is in entries of its own.
        parent = as_text(entry.get("parentSession")) or as_text(entry.get("branchedFrom"))
        facts = {
            "session_id": session_id,
            "cwd": as_text(entry.get("cwd")),
            "format_version": entry.get("version"),
            "provider": as_text(entry.get("provider")),
            "model": as_text(entry.get("modelId")),
            "thinking_level": as_text(entry.get("thinkingLevel")),
            "parent_session": parent,
        }
        self._annotate({"kind": "context", **drop_nulls(facts)}, ts)

    def _annotate(self, data: dict[str, Any], ts: str | None) -> None:
        self._draft.add_annotation(data, actor=self._client, ts=ts)

    def _read_message(self, entry: Entry, ts: str | None, number: int) -> None:
        message = entry.get("message")
        if type(message) is not dict:
            self._draft.note_omission("skipped-record", f"line {number}", "entry without a message")
            return
        # The entry has the time of writing, the message that of its beginning, as a fallback.
        ts = ts or from_epoch(message.get("timestamp"), 0.001)
        self._messages.read_message(message, ts, number)

    def _read_model_change(self, entry: Entry, ts: str | None, number: int) -> None:
        facts = {"provider": as_text(entry.get("provider")), "model": as_text(entry.get("modelId"))}
        self._annotate({"kind": "settings", **drop_nulls(facts)}, ts)

    def _read_thinking_level(self, entry: Entry, ts: str | None, number: int) -> None:
        level = as_text(entry.get("thinkingLevel"))
        self._annotate({"kind": "settings", "thinking_level": level}, ts)

    def _read_compaction(self, entry: Entry, ts: str | None, number: int) -> None:
        # Since 0.87 a compaction repeats the system prompt that holds from here on.
        system_message = entry.get("systemMessage")
        if isinstance(system_message, dict):
            self._messages.read_system(system_message, ts, number)
        # Entries of version 1 have no ids: the first one that stays is named by its index.
        first_kept = entry.get("firstKeptEntryId", entry.get("firstKeptEntryIndex"))
        facts = {
            "tokens_before": entry.get("tokensBefore"),
            "first_kept_entry": first_kept,
            "details": entry.get("details"),
        }
        data = {"kind": "compaction", **drop_nulls(facts)}
        self._messages.add_summary(entry.get("summary"), data, ts, entry.get("usage"))

    def _read_branch_summary(self, entry: Entry, ts: str | None, number: int) -> None:
        facts = {"from_entry": entry.get("fromId"), "details": entry.get("details")}
        data = {"kind": "branch_summary", **drop_nulls(facts)}
        self._messages.add_summary(entry.get("summary"), data, ts, entry.get("usage"))

    def _read_context_edit(self, entry: Entry, ts: str | None, number: int) -> None:
        """Read that an earlier entry is replaced for the model, or left out after a failure."""
        replacement = entry.get("replacement")
        facts = {
            "target_entry": as_text(entry.get("targetId")),
            "replacement": replacement,
            "omitted": True if replacement is None else None,
        }
        self._annotate({"kind": "context_edit", **drop_nulls(facts)}, ts)

    def _read_usage(self, entry: Entry, ts: str | None, number: int) -> None:
        self._messages.add_usage(entry, ts)

    def _read_custom_message(self, entry: Entry, ts: str | None, number: int) -> None:
        self._messages.read_custom(entry, ts, number)

    def _read_label(self, entry: Entry, ts: str | None, number: int) -> None:
        facts = {
            "label": as_text(entry.get("label")),
            "target_entry": as_text(entry.get("targetId")),
        }
        self._annotate({"kind": "label", **drop_nulls(facts)}, ts)

    def _read_name(self, entry: Entry, ts: str | None, number: int) -> None:
        name = as_text(entry.get("name"))
        if name:
            self._draft.conversation["title"] = name

    def _read_extension_state(self, entry: Entry, ts: str | None, number: int) -> None:
        self._draft.note_omission("bookkeeping", f"line {number}", "state of an extension")


_NO_PARENT = -1
_HEADER = -2


class EntryTree:
    """The entries by id and parentId, with the positions at which their events begin."""

    def __init__(self) -> None:
        self._indexes: dict[str, int] = {}
        self._parents = array("q")
        self._positions = array("q")
        self._last = _NO_PARENT

    def add(self, entry: dict[str, Any], position: int) -> bool:
        """Add an entry whose events start at a position; return False if its parent is missing.

        Such an entry follows the one before it, like those of version 1, which have no parents.
        """
        parent_id = entry.get("parentId")
        parent = self._last
        is_parent_known = True
        if isinstance(parent_id, str):
            is_parent_known = parent_id in self._indexes
            parent = self._indexes.get(parent_id, self._last)
        elif parent_id is not None:
            is_parent_known = False
        elif "parentId" in entry:
            # A null parent, unlike a missing one, says that the tree starts here.
            parent = _NO_PARENT
        self._last = len(self._parents)
        self._parents.append(parent)
        self._positions.append(position)
        entry_id = entry.get("id")
        if isinstance(entry_id, str):
            self._indexes[entry_id] = self._last
        return is_parent_known

    def add_header(self, position: int) -> None:
        """Add a header: its events are on no branch and stay."""
        self._parents.append(_HEADER)
        self._positions.append(position)

    def find_abandoned(self, end: int) -> Iterator[range]:
        """Yield the positions of each abandoned branch; `end` is the number of events."""
        is_active = self._find_active()
        positions = [*self._positions, end]
        start: int | None = None
        for index, parent in enumerate(self._parents):
            is_abandoned = parent != _HEADER and not is_active[index]
            # A branch ends where an entry does not follow the one before it.
            if start is not None and (not is_abandoned or parent != index - 1):
                yield range(start, positions[index])
                start = None
            if is_abandoned and start is None:
                start = positions[index]
        if start is not None:
            yield range(start, end)

    def _find_active(self) -> bytearray:
        """Return which entries lead to the last one; parents always precede their children."""
        is_active = bytearray(len(self._parents))
        index = self._last
        while index >= 0:
            is_active[index] = 1
            index = self._parents[index]
        return is_active


def read(source: Source, draft: Draft) -> None:
    """Read the session into the draft."""
    SessionReader(source, draft).read()
