"""What every store must do for tasks by the clock: a slot is taken once, with its session, or not
at all."""

from typing import Any

import pytest

from helpers.server.stores import ANNA, BEN, BlockingStore, at, entries, session_row
from open_token.errors import StoreError
from open_token.server.store.interface import NotFoundError
from open_token.server.store.rows import Fence, Firing, NewRun, NewTask, RunEnd, SessionWrite


def task(number: int = 1, **more: Any) -> NewTask:
    values = {
        "title": "Report",
        "prompt": "Write it",
        "cron": "0 9 * * *",
        "timezone": "UTC",
        "next_fire": at(100),
    }
    return NewTask(id=f"task_{number}", created_at=at(number), **values | more)


def firing(number: int = 1, task_id: str = "task_1", owner: str = ANNA, **more: Any) -> Firing:
    step = SessionWrite(
        owner=owner,
        session_id=f"sess_{number}",
        expected=0,
        session=session_row("Report"),
        entries=entries(2),
        run=NewRun(id=f"run_{number}", at=at(101)),
    )
    values = {"fire_at": at(100), "due": at(100), "next_fire": at(200), "at": at(101), "step": step}
    return Firing(task_id=task_id, owner=owner, run_id=f"trun_{number}", **values | more)


def ended(store: BlockingStore, status: str, error: str | None = None, number: int = 1) -> None:
    run = store.claim_run("w", at(110), at(140))
    end = RunEnd(status=status, at=at(120), error=error)  # type: ignore[arg-type]
    fence = Fence(run_id=run.id, token=run.fencing_token)
    store.append(SessionWrite(owner=ANNA, session_id=f"sess_{number}", fence=fence, run_end=end))


class TestTasks:
    def test_schedule_is_read_as_it_was_written(self, store: BlockingStore) -> None:
        added = store.add_task(
            ANNA, task(skip_confirmations=True, model="demo", expires_at=at(900), body=b'{"x":1}')
        )
        assert store.task(ANNA, "task_1") == added
        assert (added.owner, added.title, added.enabled, added.skip_confirmations) == (
            ANNA,
            "Report",
            True,
            True,
        )
        assert (added.next_fire, added.expires_at, added.updated_at, added.body) == (
            at(100),
            at(900),
            None,
            b'{"x":1}',
        )
        with pytest.raises(NotFoundError):
            store.add_task("user_nobody", task(2))

    def test_schedule_belongs_to_one_user(self, store: BlockingStore) -> None:
        store.add_task(ANNA, task(1))
        store.add_task(BEN, task(2))
        assert [one.id for one in store.tasks(ANNA)] == ["task_1"]
        assert store.task(BEN, "task_1") is None
        assert store.change_task(BEN, "task_1", {"title": "x"}, at(5)) is None
        assert store.delete_task(BEN, "task_1") is False
        store.fire_task(firing())
        assert store.list_task_runs(BEN).total == store.list_task_runs(BEN, "task_1").total == 0
        with pytest.raises(NotFoundError):
            store.fire_task(firing(2, owner=BEN, due=None))

    def test_schedule_can_be_changed(self, store: BlockingStore) -> None:
        store.add_task(ANNA, task())
        changed = store.change_task(
            ANNA, "task_1", {"title": "Other", "enabled": False, "next_fire": None}, at(5)
        )
        assert (changed.title, changed.enabled, changed.next_fire, changed.updated_at) == (
            "Other",
            False,
            None,
            at(5),
        )
        assert store.task(ANNA, "task_1") == changed
        for strange in ("id", "owner", "created_at", "x = 1 --"):
            with pytest.raises(StoreError):
                store.change_task(ANNA, "task_1", {strange: "x"}, at(6))

    def test_deleted_schedule_takes_runs_but_no_sessions(self, store: BlockingStore) -> None:
        store.add_task(ANNA, task())
        store.fire_task(firing())
        assert store.delete_task(ANNA, "task_1") is True
        assert store.delete_task(ANNA, "task_1") is False
        assert store.list_task_runs(ANNA).total == 0
        assert store.session(ANNA, "sess_1").stream_sequence == 2
        ended(store, "completed")

    def test_those_that_are_due_come_in_order(self, store: BlockingStore) -> None:
        assert store.get_next_fire() is None
        for number, (enabled, fire) in enumerate(
            [(True, 300), (True, 50), (False, 10), (True, 100), (True, None)]
        ):
            owner = BEN if number % 2 else ANNA
            store.add_task(owner, task(number, enabled=enabled, next_fire=fire and at(fire)))
        assert [one.id for one in store.list_due_tasks(at(100))] == ["task_1", "task_3"]
        assert [one.id for one in store.list_due_tasks(at(999), 1)] == ["task_1"]
        assert store.list_due_tasks(at(49)) == []
        assert store.get_next_fire() == at(50)
        store.disable_user(BEN, at(1))
        assert (store.list_due_tasks(at(100)), store.get_next_fire()) == ([], at(300))


class TestSlots:
    def test_a_slot_is_one_run_one_session_and_the_next_slot(self, store: BlockingStore) -> None:
        store.add_task(ANNA, task())
        run = store.fire_task(firing())
        assert (run.id, run.session_id, run.status, run.error) == (
            "trun_1",
            "sess_1",
            "running",
            None,
        )
        assert (run.fire_at, run.triggered_at, run.finished_at) == (at(100), at(101), None)
        assert store.task(ANNA, "task_1").next_fire == at(200)
        assert [one.id for one in store.runs(ANNA, "sess_1")] == ["run_1"]
        assert [entry.seq for entry in store.read_log(ANNA, "sess_1")] == [1, 2]
        assert store.check() == []

    def test_of_many_nodes_one_takes_it(self, store: BlockingStore) -> None:
        store.add_task(ANNA, task())
        runs = store.together(*(store.store.fire_task(firing(number)) for number in range(20)))
        assert sum(run is not None for run in runs) == 1
        assert store.sessions(ANNA).total == store.list_task_runs(ANNA).total == 1

    def test_a_task_that_changed_meanwhile_is_left_unchanged(self, store: BlockingStore) -> None:
        store.add_task(ANNA, task())
        store.change_task(ANNA, "task_1", {"next_fire": at(150)}, at(99))
        assert store.fire_task(firing()) is None
        store.change_task(ANNA, "task_1", {"next_fire": at(100), "enabled": False}, at(99))
        assert store.fire_task(firing()) is None
        store.delete_task(ANNA, "task_1")
        assert store.fire_task(firing()) is None
        assert store.sessions(ANNA).total == 0

    def test_a_slot_that_was_taken_by_hand_is_not_taken_again(self, store: BlockingStore) -> None:
        store.add_task(ANNA, task())
        assert store.fire_task(firing(1, due=None)) is not None
        assert store.task(ANNA, "task_1").next_fire == at(100)
        assert store.fire_task(firing(2)) is None
        assert store.task(ANNA, "task_1").next_fire == at(200)  # it would be due for ever
        assert store.sessions(ANNA).total == 1

    def test_nothing_of_a_slot_is_written_when_its_session_cannot_be(
        self, store: BlockingStore
    ) -> None:
        store.add_task(ANNA, task())
        store.append(
            SessionWrite(owner=BEN, session_id="sess_1", expected=0, session=session_row())
        )
        with pytest.raises(NotFoundError):
            store.fire_task(firing())
        assert store.task(ANNA, "task_1").next_fire == at(100)
        assert store.list_task_runs(ANNA).total == 0
        assert store.fire_task(firing(2)) is not None

    def test_a_skipped_slot_is_a_failed_run(self, store: BlockingStore) -> None:
        store.add_task(ANNA, task())
        run = store.fire_task(firing(step=None, error="skipped: missed by 3 h"))
        assert (run.status, run.error, run.session_id) == ("failed", "skipped: missed by 3 h", None)
        assert (run.finished_at, store.sessions(ANNA).total) == (at(101), 0)
        assert store.task(ANNA, "task_1").next_fire == at(200)

    def test_none_begins_while_another_goes_on(self, store: BlockingStore) -> None:
        store.add_task(ANNA, task())
        store.fire_task(firing())
        again = {
            "fire_at": at(200),
            "due": at(200),
            "next_fire": at(300),
            "if_running": "skipped: busy",
        }
        run = store.fire_task(firing(2, **again))
        assert (run.status, run.error, run.session_id) == ("failed", "skipped: busy", None)
        ended(store, "completed")
        later = {
            "fire_at": at(300),
            "due": at(300),
            "next_fire": at(400),
            "if_running": "skipped: busy",
        }
        assert store.fire_task(firing(3, **later)).status == "running"
        both = {"fire_at": at(400), "due": at(400), "next_fire": None}
        assert store.fire_task(firing(4, **both)).status == "running"
        assert store.task(ANNA, "task_1").next_fire is None

    @pytest.mark.parametrize(
        ("status", "error", "expected"),
        [
            ("completed", None, ("completed", None)),
            ("failed", "no key", ("failed", "no key")),
            ("interrupted", None, ("failed", "interrupted")),
        ],
    )
    def test_scheduled_run_ends_with_the_run_of_its_session(
        self, store: BlockingStore, status: str, error: str | None, expected: tuple[str, str | None]
    ) -> None:
        store.add_task(ANNA, task())
        store.fire_task(firing())
        ended(store, status, error)
        (run,) = store.list_task_runs(ANNA, "task_1").items
        assert ((run.status, run.error), run.finished_at) == (expected, at(120))
        step = SessionWrite(owner=ANNA, session_id="sess_1", run=NewRun(id="run_2", at=at(130)))
        store.append(step)
        ended(store, "failed", "later")
        assert store.list_task_runs(ANNA, "task_1").items == [run]

    def test_scheduled_run_ends_when_given_up_or_session_deleted(
        self, store: BlockingStore
    ) -> None:
        store.add_task(ANNA, task())
        store.fire_task(firing())
        store.fire_task(firing(2, fire_at=at(102), due=None))
        for attempt in range(3):
            store.claim_run("w", at(1000 * attempt), at(1000 * attempt + 30))
        store.delete_session(ANNA, "sess_2")
        store.give_up_runs(at(5000), "tried too often")
        runs = store.list_task_runs(ANNA, "task_1").items
        assert [(run.status, run.error) for run in runs] == [
            ("failed", "the session was deleted"),
            ("failed", "tried too often"),
        ]

    def test_runs_are_listed_by_time(self, store: BlockingStore) -> None:
        store.add_task(ANNA, task(1))
        store.add_task(ANNA, task(2))
        for number in range(1, 6):
            place = f"task_{1 + number % 2}"
            store.fire_task(
                firing(number, place, fire_at=at(number * 10), due=None, step=None, error="skipped")
            )
        assert [run.id for run in store.list_task_runs(ANNA).items] == [
            f"trun_{number}" for number in (5, 4, 3, 2, 1)
        ]
        assert [run.id for run in store.list_task_runs(ANNA, "task_1").items] == [
            "trun_4",
            "trun_2",
        ]
        assert [run.id for run in store.list_task_runs(ANNA, None, at(20), at(40)).items] == [
            "trun_3",
            "trun_2",
        ]
        page = store.list_task_runs(ANNA, limit=2, offset=1)
        assert ([run.id for run in page.items], page.total) == (["trun_4", "trun_3"], 5)
