"""What every store must do: the suite is the same for all of them."""

import hashlib
from typing import Any

import pytest

from helpers.server.stores import (
    ANNA,
    BEN,
    BlockingStore,
    at,
    create_session,
    entries,
    session_row,
    turn_row,
)
from open_token.errors import StoreError
from open_token.server.store.interface import ConflictError, FencedError, NotFoundError
from open_token.server.store.rows import (
    Checkpoint,
    Fence,
    MemoryFilter,
    NewMemory,
    NewRun,
    RunEnd,
    SessionWrite,
    User,
)


def step(session_id: str = "sess_1", owner: str = ANNA, **more: Any) -> SessionWrite:
    return SessionWrite(owner=owner, session_id=session_id, **more)


def found(store: BlockingStore, q: str, owner: str = ANNA) -> list[str]:
    return [session.id for session in store.sessions(owner, q).items]


class TestLog:
    @pytest.mark.spec("stream-sequence")
    def test_entries_are_numbered_from_one_without_a_gap(self, store: BlockingStore) -> None:
        create_session(store)
        first = store.append(step(entries=entries(3)))
        second = store.append(step(entries=entries(2)))
        assert (first.first, first.last, second.first, second.last) == (1, 3, 4, 5)
        assert [entry.seq for entry in store.read_log(ANNA, "sess_1")] == [1, 2, 3, 4, 5]

    def test_the_size_of_what_a_user_has_is_counted(self, store: BlockingStore) -> None:
        create_session(store)
        create_session(store, "sess_ben", BEN)
        empty = store.count_bytes(ANNA)
        (entry,) = entries(1, words="é" * 500)
        blob = store.put_blob(b"x" * 3000, "text/plain")
        for _ in range(2):
            store.append(
                SessionWrite(owner=ANNA, session_id="sess_1", entries=[entry], blobs=[blob.sha256])
            )
        grown = store.count_bytes(ANNA) - empty
        assert 3000 + 2 * 1000 <= grown < 3000 + 2 * 1100
        assert store.count_bytes(BEN) == 0
        store.delete_session(ANNA, "sess_1")
        assert store.count_bytes(ANNA) == 0

    def test_an_entry_comes_back_as_it_was(self, store: BlockingStore) -> None:
        create_session(store)
        data = {"text": "größer 数据 🎉\n", "deep": [{"n": 1.5, "none": None}], "big": 2**70}
        store.append(step(entries=[*entries(0), entries(1, **data)[0]]))
        (entry,) = store.read_log(ANNA, "sess_1")
        assert entry.data == data | {"number": 0}
        assert (entry.session_id, entry.at, entry.kind) == ("sess_1", at(0), "noted")

    def test_log_is_read_in_batches(self, store: BlockingStore) -> None:
        create_session(store)
        store.append(step(entries=entries(250)))
        seen: list[int] = []
        while batch := store.read_log(ANNA, "sess_1", seen[-1] if seen else 0, 100):
            seen += [entry.seq for entry in batch]
        assert seen == list(range(1, 251))

    def test_how_far_it_has_come(self, store: BlockingStore) -> None:
        assert store.progress(ANNA, "sess_1") is None
        create_session(store)
        assert store.progress(ANNA, "sess_1") == (0, 0)
        store.append(step(entries=entries(3), is_projected=True))
        assert store.progress(ANNA, "sess_1") == (3, 3)
        store.append(step(entries=entries(2), is_projected=False))
        assert store.progress(ANNA, "sess_1") == (5, 3)
        assert store.progress(BEN, "sess_1") is None
        assert store.progress(ANNA, "sess_2") is None
        store.delete_session(ANNA, "sess_1")
        assert store.progress(ANNA, "sess_1") is None

    def test_who_expects_another_sequence_is_refused(self, store: BlockingStore) -> None:
        create_session(store)
        store.append(step(entries=entries(2), expected=0))
        with pytest.raises(ConflictError) as caught:
            store.append(step(entries=entries(1), expected=1, turns=[turn_row(0)]))
        assert caught.value.actual == 2
        assert store.session(ANNA, "sess_1").stream_sequence == 2
        assert store.turns(ANNA, "sess_1", whole_tree=True) == []

    def test_a_message_that_comes_twice_is_written_once(self, store: BlockingStore) -> None:
        create_session(store)
        once = store.append(
            step(entries=entries(2), client_message_id="m1", run=NewRun(id="run_1", at=at(1)))
        )
        again = store.append(
            step(
                entries=entries(2),
                client_message_id="m1",
                run=NewRun(id="run_2", at=at(2)),
                expected=0,
            )
        )
        assert (again.first, again.last, again.run_id, again.repeated) == (1, 2, "run_1", True)
        assert not once.repeated
        assert len(store.read_log(ANNA, "sess_1")) == 2
        assert [run.id for run in store.runs(ANNA, "sess_1")] == ["run_1"]

    def test_fifty_writers_on_one_session_stay_contiguous(self, store: BlockingStore) -> None:
        create_session(store)
        calls = [store.store.append(step(entries=entries(1, writer=n % 50))) for n in range(500)]
        appended = store.together(*calls)
        assert sorted(one.first for one in appended) == list(range(1, 501))
        log = store.read_log(ANNA, "sess_1", 0, 1000)
        assert [entry.seq for entry in log] == list(range(1, 501))
        by_answer = {one.first: n % 50 for n, one in enumerate(appended)}
        assert {entry.seq: entry.data["writer"] for entry in log} == by_answer

    def test_of_many_who_expect_the_same_one_wins(self, store: BlockingStore) -> None:
        create_session(store)
        answers = store.together(
            *(store.store.append(step(entries=entries(1), expected=0)) for _ in range(20))
        )
        assert sum(isinstance(answer, ConflictError) for answer in answers) == 19
        assert store.session(ANNA, "sess_1").stream_sequence == 1

    def test_a_session_is_made_only_by_who_expects_nothing(self, store: BlockingStore) -> None:
        for expected in (None, 3):
            with pytest.raises(NotFoundError):
                store.append(step(session=session_row(), expected=expected))
        with pytest.raises(NotFoundError):
            store.append(step(entries=entries(1), expected=0))
        with pytest.raises(NotFoundError):
            store.append(step(owner="user_nobody", session=session_row(), expected=0))
        store.append(step(session=session_row(), entries=entries(1), expected=0))
        assert store.session(ANNA, "sess_1").stream_sequence == 1

    @pytest.mark.parametrize("data", [{"text": "\ud800"}, {"n": object()}])
    def test_what_is_no_json_is_refused(self, store: BlockingStore, data: dict[str, Any]) -> None:
        create_session(store)
        with pytest.raises(StoreError, match="cannot be encoded as JSON"):
            store.append(step(entries=entries(1, **data)))
        assert store.session(ANNA, "sess_1").stream_sequence == 0


class TestSessions:
    def test_session_is_read_with_its_counters(self, store: BlockingStore) -> None:
        create_session(store)
        row = session_row(
            "数据 report", 9, is_pinned=True, head="entry_1", status="running", body=b'{"env":{}}'
        )
        store.append(step(session=row, entries=entries(4), turns=[turn_row(0), turn_row(1, 0)]))
        store.append(step(entries=entries(2), is_projected=False))
        session = store.session(ANNA, "sess_1")
        assert (session.intent, session.status, session.is_pinned) == (
            "数据 report",
            "running",
            True,
        )
        assert (session.head, session.body, session.owner) == ("entry_1", b'{"env":{}}', ANNA)
        assert (session.stream_sequence, session.next_entry, session.projected_sequence) == (
            6,
            2,
            4,
        )

    def test_how_far_sessions_are_is_reported_of_everybody_s(self, store: BlockingStore) -> None:
        create_session(store, "sess_1")
        create_session(store, "sess_2", BEN)
        store.append(step(entries=entries(3)))
        assert store.get_heads(["sess_1", "sess_2", "sess_3"]) == {
            "sess_1": (ANNA, 3),
            "sess_2": (BEN, 0),
        }
        assert store.get_heads([]) == {}

    def test_pinned_ones_come_first_then_the_newest(self, store: BlockingStore) -> None:
        for number, is_pinned in enumerate([False, True, False, True]):
            create_session(store, f"sess_{number}", second=number, is_pinned=is_pinned)
        page = store.sessions(ANNA)
        assert [session.id for session in page.items] == ["sess_3", "sess_1", "sess_2", "sess_0"]
        assert (page.total, page.content_match_truncated) == (4, False)
        page = store.sessions(ANNA, limit=2, offset=1)
        assert [session.id for session in page.items] == ["sess_1", "sess_2"]
        assert page.total == 4

    def test_the_list_is_narrowed_to_a_template(self, store: BlockingStore) -> None:
        bodies = [
            '{"template_id":"report.daily"}',
            '{"template_id":"report"}',
            '{"template_id":"other"}',
            "{}",
        ]
        bodies += [
            '{"template_id":5}',
            '{"more":{"template_id":"report.inner"}}',
            '{"template_id":"rep\\"ort"}',
        ]
        for number, body in enumerate(bodies):
            create_session(
                store, f"sess_{number}", second=number, body=body.encode(), is_pinned=number == 0
            )
        create_session(store, "sess_ben", BEN, body=bodies[0].encode())
        page = store.sessions(ANNA, template="report")
        assert [session.id for session in page.items] == ["sess_0", "sess_1"]
        assert (page.total, page.content_match_truncated) == (2, False)
        page = store.sessions(ANNA, "build", 1, 1, "report")
        assert ([session.id for session in page.items], page.total) == (["sess_1"], 2)
        assert store.sessions(ANNA, "nowhere", template="report").total == 0
        assert [session.id for session in store.sessions(ANNA, template='rep"').items] == ["sess_6"]
        assert store.sessions(ANNA, template="").total == len(bodies)
        assert (
            store.sessions(ANNA, template="%").total
            == store.sessions(ANNA, template="\0").total
            == 0
        )

    @pytest.mark.spec("session-delete")
    def test_its_environment_goes_with_a_session(self, store: BlockingStore) -> None:
        create_session(store, "sess_1")
        gone, kept = (
            ["env/sess_1", "env/sess_1/msg_1", "env/sess_1/msg_2"],
            ["env/sess_10", "env/sess_2/msg_1", "env/"],
        )
        for key in gone + kept:
            store.set_setting(key, "{}")
        assert store.delete_session(BEN, "sess_1") is False
        assert store.setting("env/sess_1") == "{}"
        store.delete_session(ANNA, "sess_1")
        assert [store.setting(key) for key in gone] == [None] * 3
        assert [store.setting(key) for key in kept] == ["{}"] * 3

    def test_nobody_sees_what_is_another_user_s(self, store: BlockingStore) -> None:
        create_session(store)
        store.append(step(entries=entries(1), turns=[turn_row(0, text="words")], blobs=[]))
        assert store.session(BEN, "sess_1") is None
        assert store.sessions(BEN).total == 0
        assert found(store, "words", BEN) == found(store, "build", BEN) == []
        assert store.read_log(BEN, "sess_1") == []
        assert store.turns(BEN, "sess_1", whole_tree=True) == []
        assert store.checkpoints(BEN, "sess_1") == store.runs(BEN, "sess_1") == []
        assert store.delete_session(BEN, "sess_1") is False
        for expected in (None, 0, 1):
            with pytest.raises(NotFoundError):
                store.append(
                    step(owner=BEN, entries=entries(1), session=session_row(), expected=expected)
                )
        assert store.session(ANNA, "sess_1").stream_sequence == 1

    def test_a_deleted_one_is_gone_with_its_words(self, store: BlockingStore) -> None:
        create_session(store)
        blob = store.put_blob(b"long", "text/plain")
        point = Checkpoint(id="c1", created_at=at(1))
        turns = [turn_row(0, text="needle")]
        store.append(
            step(entries=entries(1), turns=turns, checkpoints=[point], blobs=[blob.sha256])
        )
        token = store.add_share(ANNA, "sess_1", at(1))
        assert store.delete_session(ANNA, "sess_1") is True
        assert store.delete_session(ANNA, "sess_1") is False
        assert found(store, "needle") == found(store, "build") == []
        assert store.read_log(ANNA, "sess_1") == []
        assert store.share(token, at(1)) is None
        with pytest.raises(NotFoundError):
            store.append(step(entries=entries(1), session=session_row(), expected=1))
        create_session(store, "sess_2", intent="another")
        assert found(store, "needle") == []
        assert store.check() == []

    @pytest.mark.parametrize("name", ["", "\ud800", "\0", "x" * 100_000, "' OR 1=1 --"])
    def test_strange_names_are_of_no_session(self, store: BlockingStore, name: str) -> None:
        create_session(store)
        calls = [
            store.store.session(ANNA, name),
            store.store.session(name, "sess_1"),
            store.store.memory(name, 10**30),
        ]
        for answer in store.together(*calls):
            assert answer is None or answer.code == "store.value"

    def test_times_of_another_shape_are_refused(self, store: BlockingStore) -> None:
        with pytest.raises(StoreError, match="violates a constraint"):
            create_session(store, updated_at="2026-01-31T00:00:00Z")


class TestSearch:
    def test_intents_and_turns_are_searched(self, store: BlockingStore) -> None:
        create_session(store, "sess_1", intent="Mend the build", second=1)
        create_session(store, "sess_2", intent="Write a letter", second=2)
        store.append(
            step(
                "sess_2",
                turns=[turn_row(0, text="the build is broken"), turn_row(1, text="still broken")],
            )
        )
        assert found(store, "build") == ["sess_2", "sess_1"]
        assert found(store, "broken BUILD") == ["sess_2"]
        assert found(store, "letter") == ["sess_2"]
        assert found(store, "absent") == []
        assert store.sessions(ANNA, "build", limit=1, offset=1).total == 2
        assert [
            session.id for session in store.sessions(ANNA, "build", limit=1, offset=1).items
        ] == ["sess_1"]

    def test_the_last_word_may_be_begun(self, store: BlockingStore) -> None:
        create_session(store, intent="Summarise the quarterly figures")
        assert found(store, "quart") == found(store, "the figu") == ["sess_1"]
        assert found(store, "quart figures") == []

    @pytest.mark.parametrize(
        "q", ["数据", "今日数据", "据", "生成 摘要", "데이터", "größer", "GROSSER", "naive"]
    )
    def test_words_of_many_scripts_are_found(self, store: BlockingStore, q: str) -> None:
        create_session(store, intent="生成今日数据摘要 데이터를 Größer naïve")
        expected = [] if q == "GROSSER" else ["sess_1"]
        assert found(store, q) == expected

    @pytest.mark.parametrize(
        "q", ['"', "*", "a OR b", "NEAR(", "-x", "words:x", "(", "^", "\0", "'; --", "\ud800"]
    )
    def test_no_query_is_bad(self, store: BlockingStore, q: str) -> None:
        create_session(store, intent="plain")
        assert found(store, q) == []

    def test_an_empty_query_is_none(self, store: BlockingStore) -> None:
        create_session(store)
        assert found(store, "  ") == ["sess_1"]

    def test_other_words_take_the_place_of_the_old_ones(self, store: BlockingStore) -> None:
        create_session(store, intent="old title")
        store.append(step(turns=[turn_row(0, text="old words")]))
        store.append(step(session=session_row("new title"), turns=[turn_row(0, text="new words")]))
        assert found(store, "old") == []
        store.append(step(session=session_row("new title"), turns=[turn_row(0)]))
        assert found(store, "new words") == ["sess_1"]

    @pytest.mark.spec("search-truncated")
    def test_when_too_many_turns_match_it_says_so(self, store: BlockingStore) -> None:
        create_session(store, "sess_1")
        create_session(store, "sess_2", intent="common")
        turns = [turn_row(n, text="common") for n in range(2001)]
        store.append(step("sess_1", turns=turns))
        page = store.sessions(ANNA, "common")
        assert page.content_match_truncated
        assert {session.id for session in page.items} == {"sess_1", "sess_2"}
        assert not store.sessions(ANNA, "build").content_match_truncated

    def test_many_hits_come_in_the_same_order_as_few(self, store: BlockingStore) -> None:
        store.together(
            *(
                store.store.append(
                    step(
                        f"sess_{n}",
                        expected=0,
                        session=session_row("report", n % 977, is_pinned=n % 500 == 0),
                    )
                )
                for n in range(2100)
            )
        )
        everything = [session.id for session in store.sessions(ANNA, limit=3000).items]
        for start in (0, 3, 2050):
            page = store.sessions(ANNA, "report", limit=10, offset=start)
            assert [session.id for session in page.items] == everything[start : start + 10]
            assert page.total == 2100


class TestTurns:
    def test_the_current_branch_ends_at_the_head(self, store: BlockingStore) -> None:
        create_session(store)
        turns = [turn_row(0), turn_row(1, 0), turn_row(2, 1), turn_row(3, 0), turn_row(4, 3)]
        store.append(step(turns=turns, session=session_row(head="entry_4")))
        assert [turn.sequence for turn in store.turns(ANNA, "sess_1")] == [0, 3, 4]
        store.append(step(session=session_row(head="entry_2")))
        assert [turn.sequence for turn in store.turns(ANNA, "sess_1")] == [0, 1, 2]
        assert store.turns(ANNA, "sess_1", whole_tree=True) == turns
        store.append(step(session=session_row(head=None)))
        assert store.turns(ANNA, "sess_1") == []

    def test_a_turn_is_replaced_by_its_newer_state(self, store: BlockingStore) -> None:
        create_session(store)
        store.append(step(turns=[turn_row(0, body=b"{}", patch_sequence=1)]))
        store.append(step(turns=[turn_row(0, body=b'{"more":1}', patch_sequence=2)]))
        (turn,) = store.turns(ANNA, "sess_1", whole_tree=True)
        assert (turn.body, turn.patch_sequence) == (b'{"more":1}', 2)

    def test_a_sequence_is_given_once(self, store: BlockingStore) -> None:
        create_session(store)
        store.append(step(turns=[turn_row(0)]))
        with pytest.raises(ConflictError):
            store.append(step(entries=entries(1), turns=[turn_row(1), turn_row(0, id="entry_x")]))
        assert store.session(ANNA, "sess_1").stream_sequence == 0
        assert len(store.turns(ANNA, "sess_1", whole_tree=True)) == 1

    def test_a_circle_of_parents_ends(self, store: BlockingStore) -> None:
        create_session(store)
        store.append(
            step(turns=[turn_row(0, 1), turn_row(1, 0)], session=session_row(head="entry_1"))
        )
        assert [turn.sequence for turn in store.turns(ANNA, "sess_1")] == [0, 1]

    def test_one_that_does_not_fit_spoils_nobody_else_s_step(self, store: BlockingStore) -> None:
        create_session(store)
        store.append(step(turns=[turn_row(0)]))
        good = [step(entries=entries(1)) for _ in range(5)]
        bad = step(entries=entries(1), turns=[turn_row(0, id="entry_x")])
        answers = store.together(*(store.store.append(one) for one in [*good, bad, *good]))
        assert [isinstance(answer, ConflictError) for answer in answers] == [False] * 5 + [True] + [
            False
        ] * 5
        assert sorted(
            answer.last for answer in answers if not isinstance(answer, ConflictError)
        ) == list(range(1, 11))

    def test_checkpoints_know_what_was_before(self, store: BlockingStore) -> None:
        create_session(store)
        store.append(step(entries=entries(3)))
        point = Checkpoint(id="c1", turn_id="turn_0", label="before", created_at=at(3))
        store.append(step(entries=entries(2), checkpoints=[point]))
        store.append(
            step(
                entries=entries(1),
                checkpoints=[Checkpoint(id="c2", parent_id="c1", created_at=at(4))],
            )
        )
        points = store.checkpoints(ANNA, "sess_1")
        assert [(point.id, point.seq, point.parent_id, point.label) for point in points] == [
            ("c1", 3, None, "before"),
            ("c2", 5, "c1", None),
        ]


class TestBlobs:
    def test_a_big_result_is_kept_once_and_read_in_parts(self, store: BlockingStore) -> None:
        create_session(store)
        data = "größer ".encode() * 10_000
        blob = store.put_blob(data, "text/plain")
        assert store.put_blob(data, "text/plain") == blob
        assert (blob.sha256, blob.size, blob.media_type) == (
            hashlib.sha256(data).hexdigest(),
            len(data),
            "text/plain",
        )
        assert (len(blob.preview), blob.preview[:7]) == (2000, "größer ")
        assert store.read_blob(ANNA, "sess_1", blob.sha256) is None
        store.append(step(entries=entries(1), blobs=[blob.sha256]))
        store.append(step(entries=entries(1), blobs=[blob.sha256]))
        assert store.read_blob(ANNA, "sess_1", blob.sha256) == data
        assert store.read_blob(ANNA, "sess_1", blob.sha256, 8, 3) == data[8:11]
        assert store.read_blob(BEN, "sess_1", blob.sha256) is None
        assert store.check(is_deep=True) == []

    @pytest.mark.parametrize("name", ["0" * 64, "../../pepper", "", "ABC"])
    def test_what_was_not_put_cannot_be_referred_to(self, store: BlockingStore, name: str) -> None:
        create_session(store)
        with pytest.raises(NotFoundError):
            store.append(step(entries=entries(1), blobs=[name]))
        assert store.read_blob(ANNA, "sess_1", name) is None

    def test_a_sweep_takes_what_nobody_has_and_is_old(self, store: BlockingStore) -> None:
        create_session(store)
        kept, lost = store.put_blob(b"kept", "text/plain"), store.put_blob(b"lost", "text/plain")
        store.append(step(blobs=[kept.sha256]))
        assert store.sweep_blobs(0) == 0
        assert store.sweep_blobs(4e9) == 1
        assert store.read_blob(ANNA, "sess_1", kept.sha256) == b"kept"
        with pytest.raises(NotFoundError):
            store.append(step(blobs=[lost.sha256]))
        store.delete_session(ANNA, "sess_1")
        assert store.sweep_blobs(4e9) == 1


class TestPeople:
    def test_there_is_one_owner_and_no_name_twice(self, store: BlockingStore) -> None:
        assert [user.name for user in store.users()] == ["Anna", "Ben"]
        with pytest.raises(ConflictError):
            store.add_user(User(id="user_2", name="Second", role="owner", created_at=at(1)))
        with pytest.raises(ConflictError):
            store.add_user(User(id="user_2", name="Ben", role="user", created_at=at(1)))
        assert store.user(BEN).role == "user"
        assert store.user("user_2") is None

    def test_who_is_locked_out_has_no_key_that_works(self, store: BlockingStore) -> None:
        _, plaintext = store.add_key(BEN, "laptop", "full", at(1))
        assert store.disable_user(BEN, at(2)) is True
        assert store.check_key(plaintext, at(3)) is None
        store.disable_user(BEN, None)
        assert store.check_key(plaintext, at(3)).user.id == BEN
        assert store.disable_user(ANNA, at(2)) is False
        assert store.delete_user(ANNA) is False

    def test_the_owner_loses_nothing_by_not_leaving(self, store: BlockingStore) -> None:
        store.add_memory(ANNA, NewMemory(content="likes tea", type="feedback", created_at=at(1)))
        assert store.delete_user(ANNA) is False
        assert len(store.find_relevant_memories(ANNA, "tea")) == 1

    def test_a_user_leaves_with_keys_and_memories(self, store: BlockingStore) -> None:
        store.add_key(BEN, "laptop", "full", at(1))
        store.add_memory(BEN, NewMemory(content="likes tea", type="feedback", created_at=at(1)))
        create_session(store, owner=BEN)
        with pytest.raises(ConflictError):
            store.delete_user(BEN)
        store.delete_session(BEN, "sess_1")
        assert store.delete_user(BEN) is True
        assert store.keys(BEN) == []
        assert store.check() == []

    def test_a_key_is_shown_once_and_then_masked(self, store: BlockingStore) -> None:
        key, plaintext = store.add_key(ANNA, "laptop", "read", at(1))
        (listed,) = store.keys(ANNA)
        assert listed == key
        assert listed.masked == f"sk-ot-v1-...{plaintext[-4:]}"
        assert plaintext not in repr(listed)
        caller = store.check_key(plaintext, at(2))
        assert (caller.user.id, caller.key.id, caller.key.scope) == (ANNA, key.id, "read")
        with pytest.raises(NotFoundError):
            store.add_key("user_nobody", "x", "full", at(1))

    def test_a_key_that_is_not_one_opens_nothing(self, store: BlockingStore) -> None:
        _, plaintext = store.add_key(ANNA, "laptop", "full", at(1))
        other = plaintext[:-10] + ("A" if plaintext[-10] != "A" else "B") + plaintext[-9:]
        for wrong in (
            "",
            "x",
            plaintext[:-1],
            plaintext + "0",
            other,
            plaintext.swapcase(),
            "\ud800",
        ):
            assert store.check_key(wrong, at(2)) is None

    def test_a_revoked_key_ends_at_once(self, store: BlockingStore) -> None:
        key, plaintext = store.add_key(ANNA, "laptop", "full", at(1))
        assert store.revoke_key(BEN, key.id, at(2)) is False
        assert store.check_key(plaintext, at(2)) is not None
        assert store.revoke_key(ANNA, key.id, at(2)) is True
        assert store.check_key(plaintext, at(2)) is None
        assert store.keys(ANNA) == []
        assert store.revoke_key(ANNA, key.id, at(3)) is False
        assert store.rename_key(ANNA, key.id, "x") is None

    def test_its_use_is_noted_once_a_minute(self, store: BlockingStore) -> None:
        key, plaintext = store.add_key(ANNA, "laptop", "full", at(1))
        used = []
        for second in (5, 30, 64, 65, 300):
            store.check_key(plaintext, at(second))
            used.append(store.keys(ANNA)[0].last_used_at)
        assert used == [at(5), at(5), at(5), at(65), at(300)]
        assert store.rename_key(ANNA, key.id, "desk").name == "desk"
        assert store.rename_key(BEN, key.id, "mine") is None

    def test_a_share_opens_one_session_until_it_ends(self, store: BlockingStore) -> None:
        create_session(store)
        for_ever, short = (
            store.add_share(ANNA, "sess_1", at(1)),
            store.add_share(ANNA, "sess_1", at(1), at(100)),
        )
        assert store.share(short, at(99)).session_id == "sess_1"
        assert (store.share(short, at(99)).owner, store.share(short, at(100))) == (ANNA, None)
        assert store.share(for_ever, at(9999)).expires_at is None
        assert store.share("guess", at(1)) is None
        assert store.revoke_share(BEN, "sess_1", for_ever) == 0
        assert store.revoke_share(ANNA, "sess_1", for_ever) == 1
        assert store.share(for_ever, at(1)) is None
        assert store.revoke_share(ANNA, "sess_1") == 1
        with pytest.raises(NotFoundError):
            store.add_share(BEN, "sess_1", at(1))

    def test_settings_are_kept(self, store: BlockingStore) -> None:
        assert store.setting("title") is None
        store.set_setting("title", "Ours")
        assert store.setting("title") == "Ours"
        store.set_setting("title", None)
        assert store.setting("title") is None

    def test_a_setting_is_taken_by_one(self, store: BlockingStore) -> None:
        store.set_setting("code", "once")
        result = store.together(*(store.store.take_setting("code") for _ in range(8)))
        assert sorted(filter(None, result)) == ["once"]
        assert store.setting("code") is None


def remember(
    store: BlockingStore,
    content: str,
    user: str = ANNA,
    supersedes: tuple[int, ...] = (),
    **more: Any,
) -> int:
    memory = NewMemory(content=content, created_at=at(1), **{"type": "feedback"} | more)
    return int(store.add_memory(user, memory, supersedes).id)


class TestMemories:
    def test_memory_is_read_as_it_was_written(self, store: BlockingStore) -> None:
        number = remember(
            store, "likes tea", topic="food", source_session="sess_1", write_reason="said so"
        )
        memory = store.memory(ANNA, number)
        assert (memory.content, memory.topic, memory.source_session) == (
            "likes tea",
            "food",
            "sess_1",
        )
        assert (memory.hit_count, memory.disabled, memory.superseded_by, memory.updated_at) == (
            0,
            False,
            None,
            None,
        )
        assert store.memory(BEN, number) is None

    def test_filters(self, store: BlockingStore) -> None:
        tea = remember(store, "likes 100% tea", topic="food", scope="home")
        code = remember(
            store, "uses_tabs", type="experience", skill_name="code", record_type="memory"
        )
        remember(store, "other user's", BEN)

        def ids(**which: Any) -> list[int]:
            return [memory.id for memory in store.memories(ANNA, MemoryFilter(**which)).items]

        assert ids() == [code, tea]
        assert (
            ids(type="experience") == ids(skill_name="code") == ids(record_type="memory") == [code]
        )
        assert (
            ids(topic="food")
            == ids(scope="home")
            == ids(keyword="TEA")
            == ids(keyword="0%")
            == [tea]
        )
        assert ids(keyword="s_t") == [code]
        assert ids(keyword="s%t") == ids(owner="x") == ids(type="feedback", skill_name="code") == []
        page = store.memories(ANNA, limit=1, offset=1)
        assert ([memory.id for memory in page.items], page.total) == ([tea], 2)

    def test_a_newer_one_supersedes(self, store: BlockingStore) -> None:
        old, foreign = remember(store, "likes tea"), remember(store, "likes tea", BEN)
        new = remember(store, "likes coffee now, no tea", supersedes=(old, foreign))
        assert store.memory(ANNA, old).superseded_by == new
        assert store.memory(BEN, foreign).superseded_by is None
        assert [memory.id for memory in store.find_relevant_memories(ANNA, "tea")] == [new]
        assert [
            memory.id for memory in store.memories(ANNA, MemoryFilter(status="superseded")).items
        ] == [old]
        assert store.delete_memories(ANNA, [new]) == 1
        assert store.memory(ANNA, old).superseded_by is None

    def test_the_relevant_ones_are_found_best_first(self, store: BlockingStore) -> None:
        build = remember(store, "the build needs make ready first")
        tabs = remember(store, "tabs in the makefile")
        remember(store, "likes tea")
        chinese = remember(store, "用户喜欢绿茶")
        assert store.find_relevant_memories(ANNA, "How do I build it? make?")[0].id == build
        assert tabs in [
            memory.id for memory in store.find_relevant_memories(ANNA, "makefile and tabs")
        ]
        assert [memory.id for memory in store.find_relevant_memories(ANNA, "喝绿茶吗")] == [chinese]
        assert (
            store.find_relevant_memories(ANNA, "?!")
            == store.find_relevant_memories(BEN, "build")
            == []
        )
        store.disable_memories(ANNA, [build, tabs], True, at(5))
        assert store.find_relevant_memories(ANNA, "build makefile") == []
        assert store.disable_memories(ANNA, [build], False, at(6)) == 1
        assert [memory.id for memory in store.find_relevant_memories(ANNA, "build")] == [build]

    def test_changes_hits_and_batches_stay_with_their_user(self, store: BlockingStore) -> None:
        mine, other = remember(store, "likes tea"), remember(store, "likes tea", BEN)
        assert store.change_memory(ANNA, other, {"content": "x"}, at(2)) is None
        changed = store.change_memory(
            ANNA, mine, {"content": "likes coffee", "disabled": False}, at(2)
        )
        assert (changed.content, changed.updated_at) == ("likes coffee", at(2))
        assert store.find_relevant_memories(ANNA, "tea") == []
        assert store.record_memory_hits(ANNA, [mine, other], at(3)) == 1
        hit = store.memory(ANNA, mine)
        assert (hit.hit_count, hit.last_hit_at, store.memory(BEN, other).hit_count) == (1, at(3), 0)
        assert store.delete_memories(ANNA, [mine, other]) == 1
        assert store.memory(ANNA, mine) is None
        with pytest.raises(StoreError):
            store.change_memory(BEN, other, {"user_id": ANNA}, at(4))


class TestRuns:
    def queued(self, store: BlockingStore, number: int, session_id: str = "sess_1") -> None:
        store.append(
            step(session_id, entries=entries(1), run=NewRun(id=f"run_{number}", at=at(number)))
        )

    def test_a_run_is_claimed_kept_and_ended(self, store: BlockingStore) -> None:
        create_session(store)
        self.queued(store, 1)
        run = store.claim_run("w1", at(10), at(40))
        assert (run.id, run.status, run.worker, run.attempts, run.fencing_token) == (
            "run_1",
            "running",
            "w1",
            1,
            1,
        )
        assert (run.session_id, run.owner) == ("sess_1", ANNA)
        assert store.claim_run("w2", at(11), at(41)) is None
        fence = Fence(run_id="run_1", token=1)
        assert store.renew_lease(fence, at(50)) is True
        assert store.claim_run("w2", at(45), at(75)) is None
        end = RunEnd(status="completed", at=at(46))
        store.append(step(entries=entries(1), fence=fence, run_end=end))
        (run,) = store.runs(ANNA, "sess_1")
        assert (run.status, run.finished_at, run.lease_until) == ("completed", at(46), None)
        with pytest.raises(FencedError):
            store.append(step(entries=entries(1), fence=fence))

    def test_who_lost_the_lease_is_fenced_off(self, store: BlockingStore) -> None:
        create_session(store)
        self.queued(store, 1)
        store.claim_run("w1", at(10), at(40))
        again = store.claim_run("w2", at(41), at(71))
        assert (again.worker, again.attempts, again.fencing_token, again.started_at) == (
            "w2",
            2,
            2,
            at(10),
        )
        old, new = Fence(run_id="run_1", token=1), Fence(run_id="run_1", token=2)
        assert store.renew_lease(old, at(99)) is False
        with pytest.raises(FencedError):
            store.append(step(entries=entries(1), fence=old, turns=[turn_row(0)]))
        assert store.append(step(entries=entries(1), fence=new)).last == 2
        create_session(store, "sess_2")
        with pytest.raises(FencedError):
            store.append(step("sess_2", entries=entries(1), fence=new))

    def test_who_claims_may_say_when_leases_have_lapsed(self, store: BlockingStore) -> None:
        create_session(store)
        self.queued(store, 1)
        assert store.claim_run("w1", at(10), at(40), 3, "").worker == "w1"
        assert store.claim_run("w2", at(60), at(90), 3, "") is None
        assert store.claim_run("w2", at(60), at(90), 3, at(41)).worker == "w2"

    def test_a_lease_that_no_clock_can_have_given_is_none(self, store: BlockingStore) -> None:
        create_session(store)
        self.queued(store, 1)
        store.claim_run("w1", at(10_000), at(10_030))
        assert store.claim_run("w2", at(9_975), at(10_005)) is None
        assert store.claim_run("w2", at(10), at(40)).worker == "w2"

    def test_runs_of_one_session_go_one_after_the_other(self, store: BlockingStore) -> None:
        create_session(store, "sess_1")
        create_session(store, "sess_2")
        self.queued(store, 1)
        self.queued(store, 2)
        self.queued(store, 3, "sess_2")
        claimed = [store.claim_run("w", at(10), at(40)) for _ in range(3)]
        assert [run and run.id for run in claimed] == ["run_1", "run_3", None]
        end = RunEnd(status="failed", at=at(20), error="refused")
        store.append(step(fence=Fence(run_id="run_1", token=1), run_end=end))
        assert store.claim_run("w", at(20), at(50)).id == "run_2"
        assert store.runs(ANNA, "sess_1")[0].error == "refused"

    def test_what_fails_too_often_is_given_up(self, store: BlockingStore) -> None:
        create_session(store)
        self.queued(store, 1)
        for attempt in range(3):
            assert (
                store.claim_run("w", at(100 * attempt), at(100 * attempt + 30)).attempts
                == attempt + 1
            )
            assert store.give_up_runs(at(100 * attempt + 20), "too often") == []
        assert store.claim_run("w", at(900), at(930)) is None
        (run,) = store.give_up_runs(at(900), "too often")
        assert (run.id, run.status, run.error, run.fencing_token) == (
            "run_1",
            "failed",
            "too often",
            4,
        )
        with pytest.raises(FencedError):
            store.append(step(entries=entries(1), fence=Fence(run_id="run_1", token=3)))

    def test_of_many_workers_one_gets_it(self, store: BlockingStore) -> None:
        create_session(store)
        self.queued(store, 1)
        claims = store.together(
            *(store.store.claim_run(f"w{n}", at(10), at(40)) for n in range(20))
        )
        assert sum(claim is not None for claim in claims) == 1
