"""Redact a conversation that is still going on, batch by batch."""

from dataclasses import replace
from typing import cast

from open_token.context import Context
from open_token.model.document import Conversation, Event, Record
from open_token.redaction import masker
from open_token.redaction.detector import build_detector
from open_token.redaction.found_values import FoundValues
from open_token.redaction.media import MediaRemoval, create_removal
from open_token.redaction.redactor import redact, search_record
from open_token.redaction.report import add_media_account, drops_media, stricter_level


class LiveRedaction:
    """Mask events as they arrive; a value is masked in everything that follows its first finding."""

    def __init__(self, context: Context) -> None:
        if context.key is None:
            # Numbers in order of first use would start again in every batch.
            context = replace(context, options=context.options.changed(strategy="drop"))
        self._context = context
        self._level = stricter_level(context.options.redact, context.policy.min_redact)
        self._removal: MediaRemoval | None = None
        self._drops_media = drops_media(context, self._level)
        self._is_on = self._level != "none" or context.policy.never_export_private_keys
        self._known = FoundValues()
        self._account: Conversation = {}
        if self._is_on:
            self._detector = build_detector(self._level, context)

    def redact_events(self, events: list[Event], conversation_id: str) -> list[Event]:
        """Return the next events, masked."""
        if self._drops_media:
            if self._removal is None:
                self._removal = create_removal(self._context, conversation_id)
            events = [self._removal.clean_event(event) for event in events]
        if not self._is_on:
            return events
        conversation = cast(Conversation, {**self._account, "id": conversation_id})
        record = self._mask(Record(conversation=conversation, participants=[], events=events))
        return list(record.events)

    def redact_metadata(self, record: Record) -> Record:
        """Return the record with masked metadata and the account of all markers so far."""
        masked = self._redact_metadata(record)
        if self._removal is None:
            return masked
        removal = self._removal
        return add_media_account(
            masked, self._context, self._level, removal.counts, removal.distinct
        )

    def _redact_metadata(self, record: Record) -> Record:
        if not self._is_on:
            return record
        conversation: Conversation = {**record.conversation, **self._account}
        metadata = replace(record, conversation=conversation, events=[])
        masked = self._mask(metadata)
        if "redaction" not in masked.conversation:
            masked = redact(metadata, self._context)
        return replace(masked, events=record.events)

    def _mask(self, record: Record) -> Record:
        found = search_record(record, self._detector, whole=self._level == "strict")
        for value, (rank, rule) in found.values.items():
            self._known.add(value, rank, rule)
        for value, (rank, rule) in self._known.values.items():
            found.add(value, rank, rule)
        if not found:
            return record
        masked = masker.mask_record(record, self._context, self._level, self._detector, found)
        if redaction := masked.conversation.get("redaction"):
            self._account = {"redaction": redaction}
        return masked
