"""A store beside a plain model of it: after any operations in any order both say the same."""

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)

from helpers.server.stores import ANNA, BEN, KINDS, at, entries, open_store, session_row, turn_row
from open_token.errors import StoreError
from open_token.server.store.rows import Appended, SessionRow, SessionWrite, TurnRow

WORDS = ("build", "letter", "数据", "摘要", "größer", "tea")
owners = st.sampled_from((ANNA, BEN))
texts = st.lists(st.sampled_from(WORDS), max_size=3).map(" ".join)


@dataclass
class Session:
    """A session as the model has it."""

    owner: str
    row: SessionRow
    numbers: list[int] = field(default_factory=list)
    turns: dict[int, TurnRow] = field(default_factory=dict)
    messages: dict[str, Appended] = field(default_factory=dict)
    projected: int = 0

    def branch(self) -> list[int]:
        by_id = {turn.id: turn for turn in self.turns.values()}
        found: list[int] = []
        at_turn = by_id.get(self.row.head or "")
        while at_turn is not None and at_turn.sequence not in found:
            found.append(at_turn.sequence)
            at_turn = by_id.get(at_turn.parent_id or "")
        return sorted(found)

    def has(self, word: str) -> bool:
        said = [self.row.intent, *(turn.text or "" for turn in self.turns.values())]
        return any(word in text.split() for text in said)


class Beside(RuleBasedStateMachine):
    """Does the same to a store and to a dict."""

    kind = "sqlite"
    sessions = Bundle("sessions")

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.store = open_store(Path(self.folder.name) / "data", self.kind)
        self.model: dict[str, Session] = {}
        self.made = 0

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            self.folder.cleanup()

    @rule(
        target=sessions,
        owner=owners,
        intent=texts,
        second=st.integers(0, 99),
        is_pinned=st.booleans(),
    )
    def create(self, owner: str, intent: str, second: int, is_pinned: bool) -> str:
        self.made += 1
        name, row = f"sess_{self.made}", session_row(intent, second, is_pinned=is_pinned)
        self.store.append(SessionWrite(owner=owner, session_id=name, expected=0, session=row))
        self.model[name] = Session(owner, row)
        return name

    @rule(
        name=sessions,
        by=owners,
        count=st.integers(0, 3),
        off=st.sampled_from((None, 0, 0, 1, -1)),
        message=st.sampled_from((None, None, "m1", "m2")),
        turn=st.none() | st.integers(0, 5),
        parent=st.none() | st.integers(0, 5),
        text=st.none() | texts,
        intent=st.none() | texts,
        second=st.integers(0, 99),
        is_projected=st.booleans(),
    )
    def append(
        self, name: str, by: str, count: int, off: int | None, message: str | None, turn: int | None,
        parent: int | None, text: str | None, intent: str | None, second: int, is_projected: bool,
    ) -> None:  # fmt: skip
        session = self.model.get(name)
        turns = [] if turn is None else [turn_row(turn, parent, text=text, patch_sequence=second)]
        head = f"entry_{parent}" if turn is None and parent is not None else f"entry_{turn}"
        row = None if intent is None else session_row(intent, second, head=head)
        last = len(session.numbers) if session else 0
        step = SessionWrite(
            owner=by, session_id=name, entries=entries(count, second=second), turns=turns, session=row,
            expected=None if off is None else max(1, last + off) if session is None else last + off,
            client_message_id=message, is_projected=is_projected,
        )  # fmt: skip
        if session is None or session.owner != by or self.refuses(session, step):
            with pytest.raises(StoreError):
                self.store.append(step)
            return
        result = self.store.append(step)
        if message in session.messages:
            assert result.repeated
            assert (result.first, result.last) == (
                session.messages[message].first,
                session.messages[message].last,
            )
            return
        self.enter(session, step, result)

    @staticmethod
    def refuses(session: Session, step: SessionWrite) -> bool:
        is_known = step.client_message_id in session.messages
        return not is_known and step.expected not in (None, len(session.numbers))

    @staticmethod
    def enter(session: Session, step: SessionWrite, result: Appended) -> None:
        before = len(session.numbers)
        session.numbers += [entry.data["number"] for entry in step.entries]
        assert (result.first, result.last) == (before + bool(step.entries), len(session.numbers))
        for turn in step.turns:
            known = session.turns.get(turn.sequence)
            text = turn.text if turn.text is not None or known is None else known.text
            session.turns[turn.sequence] = turn_row(
                turn.sequence,
                None,
                parent_id=turn.parent_id,
                patch_sequence=turn.patch_sequence,
                text=text,
            )
        session.row = step.session or session.row
        session.projected = len(session.numbers) if step.is_projected else session.projected
        if step.client_message_id:
            session.messages[step.client_message_id] = result

    @rule(name=consumes(sessions), by=owners, target=sessions)
    def delete(self, name: str, by: str) -> object:
        session = self.model.get(name)
        is_theirs = session is not None and session.owner == by
        assert self.store.delete_session(by, name) is is_theirs
        if is_theirs:
            del self.model[name]
            return multiple()
        return name

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = open_store(Path(self.folder.name) / "data", self.kind)

    @rule(
        owner=owners, word=st.sampled_from(WORDS), limit=st.integers(1, 5), offset=st.integers(0, 3)
    )
    def search(self, owner: str, word: str, limit: int, offset: int) -> None:
        wanted = [name for name in self.in_order(owner) if self.model[name].has(word)]
        page = self.store.sessions(owner, word, limit, offset)
        assert [session.id for session in page.items] == wanted[offset : offset + limit]
        assert (page.total, page.content_match_truncated) == (len(wanted), False)

    @rule(name=sessions, after=st.integers(0, 9), limit=st.integers(1, 4))
    def read(self, name: str, after: int, limit: int) -> None:
        session = self.model.get(name)
        owner = session.owner if session else ANNA
        log = self.store.read_log(owner, name, after, limit)
        numbers = session.numbers if session else []
        assert [(entry.seq, entry.data["number"]) for entry in log] == list(
            enumerate(numbers, start=1)
        )[after:][:limit]

    def in_order(self, owner: str) -> list[str]:
        names = [name for name, session in self.model.items() if session.owner == owner]

        def key(name: str) -> tuple[bool, str, int]:
            row = self.model[name].row
            return row.is_pinned, row.updated_at, int(name[5:])

        return sorted(names, key=key, reverse=True)

    @invariant()
    def lists_agree(self) -> None:
        if not hasattr(self, "store"):
            return
        for owner in (ANNA, BEN):
            page = self.store.sessions(owner, limit=1000)
            assert [session.id for session in page.items] == self.in_order(owner)
            assert page.total == len(page.items)
            for session in page.items:
                known = self.model[session.id]
                assert (session.intent, session.head) == (known.row.intent, known.row.head)
                assert session.stream_sequence == len(known.numbers)
                assert session.projected_sequence == known.projected
                assert session.next_entry == max(known.turns, default=-1) + 1

    @invariant()
    def turns_agree(self) -> None:
        for name, known in getattr(self, "model", {}).items():
            held = self.store.turns(known.owner, name, whole_tree=True)
            assert [(turn.sequence, turn.parent_id, turn.patch_sequence) for turn in held] == [
                (turn.sequence, turn.parent_id, turn.patch_sequence)
                for _, turn in sorted(known.turns.items())
            ]
            assert [turn.sequence for turn in self.store.turns(known.owner, name)] == known.branch()


def compare(kind: str, examples: int) -> None:
    machine = type(f"Beside_{kind}", (Beside,), {"kind": kind})
    machine.TestCase.settings = settings(
        max_examples=examples, stateful_step_count=30, deadline=None
    )
    machine.TestCase().runTest()


@pytest.mark.parametrize("kind", KINDS)
def test_store_and_model_say_the_same(kind: str) -> None:
    compare(kind, 12)


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_store_and_model_say_the_same_for_long(kind: str) -> None:
    compare(kind, 150)


def test_the_model_sees_a_difference() -> None:
    """Planted: a session that the model does not know of."""
    machine = Beside()
    machine.begin()
    machine.lists_agree()
    machine.create(ANNA, "build", 1, False)
    machine.store.append(
        SessionWrite(owner=ANNA, session_id="sess_1", entries=entries(1, at=at(0)))
    )
    with pytest.raises(AssertionError):
        machine.lists_agree()
    machine.teardown()
