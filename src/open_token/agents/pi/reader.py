"""One Pi session told entry by entry, and what is off the current branch taken out at the end."""

from array import array
from collections.abc import Callable, Iterator
from typing import Any

from open_token.agents.pi.messages import Talk
from open_token.builder.draft import Draft
from open_token.formats.shared.fields import as_text, pick_fields
from open_token.formats.shared.notes import format_kind
from open_token.jsontools.timestamps import from_epoch, to_utc
from open_token.sources.source import Source

Entry = dict[str, Any]
_Telling = Callable[[Entry, str | None, int], None]


class Session:
    """Reads a session file."""

    def __init__(self, source: Source, draft: Draft) -> None:
        self._source = source
        self._draft = draft
        self._client = draft.get_actor("system", "Pi")
        self._talk = Talk(draft, self._client)
        self._tree = Tree()
        self._entries: dict[str, _Telling] = {
            "message": self._message,
            "model_change": self._model_change,
            "thinking_level_change": self._thinking_level,
            "compaction": self._compaction,
            "context_edit": self._context_edit,
            "usage": self._spent,
            "branch_summary": self._branch_summary,
            "custom_message": self._custom_message,
            "label": self._label,
            "session_info": self._named,
            "custom": self._custom,
        }

    def read(self) -> None:
        """Tell everything."""
        draft, tree = self._draft, self._tree
        for number, entry in self._source.records():
            if type(entry) is not dict:
                draft.note_omission("skipped-record", f"line {number}", "a line that is no object")
            elif entry.get("type") == "session":
                tree.free(draft.count)
                self._header(entry)
            else:
                if not tree.enter(entry, draft.count):
                    draft.note_omission(
                        "broken-chain",
                        f"line {number}",
                        "the entry that another follows is not in the source",
                    )
                self._tell(entry, number)
        for places in tree.abandoned(draft.count):
            data = {
                "kind": "abandoned_branch",
                "detail": "the session went on from an earlier entry",
            }
            draft.drop_branch(places.start, places.stop, data, self._client)
        draft.conversation["source_runtime"] = "cli"
        self._talk.providers.set_provider(draft.conversation)

    def _tell(self, entry: Entry, number: int) -> None:
        kind = entry.get("type")
        tell = self._entries.get(kind) if isinstance(kind, str) else None
        if tell is None:
            self._draft.note_omission(
                "unknown-record", f"line {number}", f"entry {format_kind(kind)}"
            )
        else:
            tell(entry, to_utc(entry.get("timestamp")), number)

    def _header(self, entry: Entry) -> None:
        """What the session is; the header of a copy made for a branch is later than the entries it
        begins with."""
        conversation, ts = self._draft.conversation, to_utc(entry.get("timestamp"))
        if (name := as_text(entry.get("id"))) and "id" not in conversation:
            conversation["id"] = name
            if ts:
                conversation["started_at"] = ts
        facts = {
            "session_id": name,
            "cwd": as_text(entry.get("cwd")),
            "format_version": entry.get("version"),
        }
        facts |= {
            "provider": as_text(entry.get("provider")),
            "model": as_text(entry.get("modelId")),
        }
        facts["thinking_level"] = as_text(entry.get("thinkingLevel"))
        facts["parent_session"] = as_text(entry.get("parentSession")) or as_text(
            entry.get("branchedFrom")
        )
        self._note({"kind": "context", **pick_fields(facts, *facts)}, ts)

    def _note(self, data: dict[str, Any], ts: str | None) -> None:
        self._draft.add_annotation(data, actor=self._client, ts=ts)

    def _message(self, entry: Entry, ts: str | None, number: int) -> None:
        message = entry.get("message")
        if type(message) is not dict:
            self._draft.note_omission(
                "skipped-record", f"line {number}", "an entry without a message"
            )
            return
        # The entry's time is that of writing; the message's own, that of its beginning, stands in
        # where it is missing.
        self._talk.tell(message, ts or from_epoch(message.get("timestamp"), 0.001), number)

    def _model_change(self, entry: Entry, ts: str | None, number: int) -> None:
        facts = {"provider": as_text(entry.get("provider")), "model": as_text(entry.get("modelId"))}
        self._note({"kind": "settings", **pick_fields(facts, *facts)}, ts)

    def _thinking_level(self, entry: Entry, ts: str | None, number: int) -> None:
        self._note({"kind": "settings", "thinking_level": as_text(entry.get("thinkingLevel"))}, ts)

    def _compaction(self, entry: Entry, ts: str | None, number: int) -> None:
        facts = {
            "tokens_before": entry.get("tokensBefore"),
            "first_kept_entry": entry.get("firstKeptEntryId", entry.get("firstKeptEntryIndex")),
            "details": entry.get("details"),
        }
        if isinstance(prompt := entry.get("systemMessage"), dict):
            self._talk.system(prompt, ts, number)
        about = {"kind": "compaction", **pick_fields(facts, *facts)}
        self._talk.summary(entry.get("summary"), about, ts, entry.get("usage"))

    def _branch_summary(self, entry: Entry, ts: str | None, number: int) -> None:
        facts = {"from_entry": entry.get("fromId"), "details": entry.get("details")}
        about = {"kind": "branch_summary", **pick_fields(facts, *facts)}
        self._talk.summary(entry.get("summary"), about, ts, entry.get("usage"))

    def _context_edit(self, entry: Entry, ts: str | None, number: int) -> None:
        """An earlier entry goes to the model no longer, or with other words: a request that failed
        is left out so."""
        given = entry.get("replacement")
        facts = {
            "target_entry": as_text(entry.get("targetId")),
            "replacement": given,
            "omitted": given is None or None,
        }
        self._note({"kind": "context_edit", **pick_fields(facts, *facts)}, ts)

    def _spent(self, entry: Entry, ts: str | None, number: int) -> None:
        self._talk.spent(entry, ts)

    def _custom_message(self, entry: Entry, ts: str | None, number: int) -> None:
        self._talk.custom(entry, ts, number)

    def _label(self, entry: Entry, ts: str | None, number: int) -> None:
        facts = {
            "label": as_text(entry.get("label")),
            "target_entry": as_text(entry.get("targetId")),
        }
        self._note({"kind": "label", **pick_fields(facts, *facts)}, ts)

    def _named(self, entry: Entry, ts: str | None, number: int) -> None:
        if name := as_text(entry.get("name")):
            self._draft.conversation["title"] = name

    def _custom(self, entry: Entry, ts: str | None, number: int) -> None:
        self._draft.note_omission(
            "bookkeeping", f"line {number}", "what an extension keeps for itself"
        )


_ROOT, _FREE = -1, -2


class Tree:
    """The entries by id and parentId, with the places at which their events begin."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self._parent = array("q")
        self._place = array("q")
        self._last = _ROOT

    def enter(self, entry: dict[str, Any], place: int) -> bool:
        """Take an entry whose events start at a place; False when what it follows is not there.

        Such an entry follows the one before it, and so does one of version 1, which has no parents.
        """
        above = entry.get("parentId")
        parent = self._last
        is_there = above is None
        if isinstance(above, str):
            is_there = above in self._known
            parent = self._known.get(above, self._last)
        elif "parentId" in entry and above is None:
            parent = _ROOT
        self._last = len(self._parent)
        self._parent.append(parent)
        self._place.append(place)
        if isinstance(name := entry.get("id"), str):
            self._known[name] = self._last
        return is_there

    def free(self, place: int) -> None:
        """The events from this place on are of no entry and stay: a header."""
        self._parent.append(_FREE)
        self._place.append(place)

    def abandoned(self, end: int) -> Iterator[range]:
        """The places of the events of each branch that was left; `end` is behind the last event."""
        kept = self._current()
        first: int | None = None
        places = [*self._place, end]
        for number, parent in enumerate(self._parent):
            is_left = parent != _FREE and not kept[number]
            if first is not None and (not is_left or parent != number - 1):
                yield range(first, places[number])
                first = None
            if is_left and first is None:
                first = places[number]
        if first is not None:
            yield range(first, end)

    def _current(self) -> bytearray:
        """Which entries the last one follows from, itself included. A parent always stands before
        its children."""
        kept = bytearray(len(self._parent))
        number = self._last
        while number >= 0:
            kept[number] = 1
            number = self._parent[number]
        return kept


def read(source: Source, draft: Draft) -> None:
    """Read the session into the draft."""
    Session(source, draft).read()
