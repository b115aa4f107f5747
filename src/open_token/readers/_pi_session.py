"""One Pi session told entry by entry, and what is off the current branch taken out at the end."""

from collections.abc import Callable
from typing import Any

from open_token.draft import Draft
from open_token.readers._pi_talk import Talk
from open_token.readers._pi_tree import Tree
from open_token.readers._wire_responses_content import kept, name_of, word
from open_token.source import Source
from open_token.timestamps import from_epoch, to_utc

Entry = dict[str, Any]
_Telling = Callable[[Entry, str | None, int], None]


class Session:
    """Reads a session file."""

    def __init__(self, source: Source, draft: Draft) -> None:
        self._source = source
        self._draft = draft
        self._client = draft.actor("system", "Pi")
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
                draft.skip("skipped-record", f"line {number}", "a line that is no object")
            elif entry.get("type") == "session":
                tree.free(draft.count)
                self._header(entry)
            else:
                if not tree.enter(entry, draft.count):
                    draft.skip(
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
            draft.abandon(places.start, places.stop, data, self._client)
        draft.conversation["source_runtime"] = "cli"
        self._talk.providers.settle(draft.conversation)

    def _tell(self, entry: Entry, number: int) -> None:
        kind = entry.get("type")
        tell = self._entries.get(kind) if isinstance(kind, str) else None
        if tell is None:
            self._draft.skip("unknown-record", f"line {number}", f"entry {name_of(kind)}")
        else:
            tell(entry, to_utc(entry.get("timestamp")), number)

    def _header(self, entry: Entry) -> None:
        """What the session is; the header of a copy made for a branch is later than the entries it
        begins with."""
        conversation, ts = self._draft.conversation, to_utc(entry.get("timestamp"))
        if (name := word(entry.get("id"))) and "id" not in conversation:
            conversation["id"] = name
            if ts:
                conversation["started_at"] = ts
        facts = {
            "session_id": name,
            "cwd": word(entry.get("cwd")),
            "format_version": entry.get("version"),
        }
        facts |= {"provider": word(entry.get("provider")), "model": word(entry.get("modelId"))}
        facts["thinking_level"] = word(entry.get("thinkingLevel"))
        facts["parent_session"] = word(entry.get("parentSession")) or word(
            entry.get("branchedFrom")
        )
        self._note({"kind": "context", **kept(facts, *facts)}, ts)

    def _note(self, data: dict[str, Any], ts: str | None) -> None:
        self._draft.annotation(data, actor=self._client, ts=ts)

    def _message(self, entry: Entry, ts: str | None, number: int) -> None:
        message = entry.get("message")
        if type(message) is not dict:
            self._draft.skip("skipped-record", f"line {number}", "an entry without a message")
            return
        # The entry's time is that of writing; the message's own, that of its beginning, stands in
        # where it is missing.
        self._talk.tell(message, ts or from_epoch(message.get("timestamp"), 0.001), number)

    def _model_change(self, entry: Entry, ts: str | None, number: int) -> None:
        facts = {"provider": word(entry.get("provider")), "model": word(entry.get("modelId"))}
        self._note({"kind": "settings", **kept(facts, *facts)}, ts)

    def _thinking_level(self, entry: Entry, ts: str | None, number: int) -> None:
        self._note({"kind": "settings", "thinking_level": word(entry.get("thinkingLevel"))}, ts)

    def _compaction(self, entry: Entry, ts: str | None, number: int) -> None:
        facts = {
            "tokens_before": entry.get("tokensBefore"),
            "first_kept_entry": entry.get("firstKeptEntryId", entry.get("firstKeptEntryIndex")),
            "details": entry.get("details"),
        }
        if isinstance(prompt := entry.get("systemMessage"), dict):
            self._talk.system(prompt, ts, number)
        about = {"kind": "compaction", **kept(facts, *facts)}
        self._talk.summary(entry.get("summary"), about, ts, entry.get("usage"))

    def _branch_summary(self, entry: Entry, ts: str | None, number: int) -> None:
        facts = {"from_entry": entry.get("fromId"), "details": entry.get("details")}
        about = {"kind": "branch_summary", **kept(facts, *facts)}
        self._talk.summary(entry.get("summary"), about, ts, entry.get("usage"))

    def _context_edit(self, entry: Entry, ts: str | None, number: int) -> None:
        """An earlier entry goes to the model no longer, or with other words: a request that failed
        is left out so."""
        given = entry.get("replacement")
        facts = {
            "target_entry": word(entry.get("targetId")),
            "replacement": given,
            "omitted": given is None or None,
        }
        self._note({"kind": "context_edit", **kept(facts, *facts)}, ts)

    def _spent(self, entry: Entry, ts: str | None, number: int) -> None:
        self._talk.spent(entry, ts)

    def _custom_message(self, entry: Entry, ts: str | None, number: int) -> None:
        self._talk.custom(entry, ts, number)

    def _label(self, entry: Entry, ts: str | None, number: int) -> None:
        facts = {"label": word(entry.get("label")), "target_entry": word(entry.get("targetId"))}
        self._note({"kind": "label", **kept(facts, *facts)}, ts)

    def _named(self, entry: Entry, ts: str | None, number: int) -> None:
        if name := word(entry.get("name")):
            self._draft.conversation["title"] = name

    def _custom(self, entry: Entry, ts: str | None, number: int) -> None:
        self._draft.skip("bookkeeping", f"line {number}", "what an extension keeps for itself")
