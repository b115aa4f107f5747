"""Redaction of a conversation that is still going on: each batch knows what was found in those
before."""

from dataclasses import replace
from typing import cast

from open_token.context import Context
from open_token.model import Conversation, Event, Record
from open_token.passes import _masking
from open_token.passes._found import Found
from open_token.passes._notes import stronger
from open_token.passes._screen import detector_for
from open_token.passes.redact import redact, search


class LiveRedaction:
    """Masks events as they come; a value is masked in all that comes after it was found."""

    def __init__(self, context: Context) -> None:
        if context.key is None:  # numbers in order of first use would begin anew in every batch
            context = replace(context, options=context.options.changed(strategy="drop"))
        self._context = context
        self._level = stronger(context.options.redact, context.policy.min_redact)
        self._is_on = self._level != "none" or context.policy.never_export_private_keys
        self._known = Found()
        self._account: Conversation = {}
        if self._is_on:
            self._detector = detector_for(self._level, context)

    def events(self, events: list[Event], conversation_id: str) -> list[Event]:
        """The next events, masked."""
        if not self._is_on:
            return events
        facts = cast(Conversation, {**self._account, "id": conversation_id})
        record = self._masked(Record(conversation=facts, participants=[], events=events))
        return list(record.events)

    def facts(self, record: Record) -> Record:
        """What is said of the whole, masked, with the account of all marks so far."""
        if not self._is_on:
            return record
        told = replace(record, conversation={**record.conversation, **self._account}, events=[])
        masked = self._masked(told)
        if "redaction" not in masked.conversation:
            masked = redact(told, self._context)
        return replace(masked, events=record.events)

    def _masked(self, record: Record) -> Record:
        found = search(record, self._detector, whole=self._level == "strict")
        for value, (rank, rule) in found.values.items():
            self._known.add(value, rank, rule)
        for value, (rank, rule) in self._known.values.items():
            found.add(value, rank, rule)
        if not found:
            return record
        masked = _masking.mask(record, self._context, self._level, self._detector, found)
        if redaction := masked.conversation.get("redaction"):
            self._account = {"redaction": redaction}
        return masked
