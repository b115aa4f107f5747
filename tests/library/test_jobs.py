"""Work in several processes: in order, bounded, and never stopped by one item."""

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest

from open_token.errors import InputError, SizeLimitError
from open_token.library.jobs import limit_jobs, run_jobs
from open_token.storage.files import pending_file

JOBS = 2


def square(number: int) -> int:
    """Take longer for early items, so that later ones are done first."""
    time.sleep(0.05 if number < 2 else 0)
    return number * number


def fail_at_three(number: int) -> int:
    if number == 3:
        raise InputError("this one is broken", where="three", help="correct it", code="input.three")
    if number == 4:
        raise ValueError("a text that must not be shown")
    if number == 5:
        raise SizeLimitError("too large", smallest=17)
    return number


def die_at_two(number: int) -> int:
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


class DieOnce:
    """Dies at an item unless a file says that it has done so before."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, number: int) -> int:
        if number == 2 and not self.path.exists():
            self.path.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return number


class WriteSlowly:
    """Leaves a pending file open until it is stopped."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, number: int) -> int:
        if number:
            with pending_file(self.folder, ".slow-"):
                time.sleep(30)
        return number


@pytest.mark.parametrize("jobs", [1, JOBS])
def test_results_come_in_order(jobs: int) -> None:
    outcomes = list(run_jobs(square, range(40), jobs))
    assert [outcome.item for outcome in outcomes] == list(range(40))
    assert [outcome.result for outcome in outcomes] == [n * n for n in range(40)]


@pytest.mark.parametrize("jobs", [1, JOBS])
def test_a_broken_item_is_reported_and_the_others_are_done(jobs: int) -> None:
    outcomes = list(run_jobs(fail_at_three, range(7), jobs))
    assert [outcome.result for outcome in outcomes] == [0, 1, 2, None, None, None, 6]
    known, unknown, size = [outcome.problem for outcome in outcomes[3:6]]
    assert isinstance(known, InputError)
    assert (known.what, known.where, known.help, known.code) == (
        "this one is broken",
        "three",
        "correct it",
        "input.three",
    )
    assert unknown is not None
    assert unknown.what == "internal error (ValueError)"
    assert isinstance(size, SizeLimitError)
    assert size.smallest == 17


def test_a_process_that_dies_costs_one_item_and_not_the_run() -> None:
    outcomes = list(run_jobs(die_at_two, range(6), JOBS))
    assert [outcome.result for outcome in outcomes] == [0, 1, None, 3, 4, 5]
    problem = outcomes[2].problem
    assert problem is not None
    assert problem.code == "worker.lost"
    assert "signal 9" in problem.what


def test_an_item_whose_process_died_is_tried_once_more(tmp_path: Path) -> None:
    outcomes = list(run_jobs(DieOnce(tmp_path / "died"), range(6), JOBS))
    assert [outcome.result for outcome in outcomes] == list(range(6))
    assert (tmp_path / "died").exists()


def test_items_are_taken_as_they_are_needed() -> None:
    taken = 0

    def count_items() -> object:
        nonlocal taken
        for number in range(1000):
            taken += 1
            yield number

    with contextlib.closing(run_jobs(square, count_items(), JOBS)) as outcomes:
        next(outcomes)
        assert taken <= 20


def test_closing_stops_the_processes_and_removes_their_files(tmp_path: Path) -> None:
    with contextlib.closing(run_jobs(WriteSlowly(tmp_path), range(3), JOBS)) as outcomes:
        assert next(outcomes).result == 0
        while not list(tmp_path.iterdir()):
            time.sleep(0.01)
    assert list(tmp_path.iterdir()) == []


def test_small_work_stays_in_this_process() -> None:
    assert limit_jobs(8, [1000] * 20) == 1
    assert limit_jobs(8, [1 << 30]) == 1
    assert limit_jobs(8, [1 << 30] * 3) == 3
    assert limit_jobs(8, [1 << 20] * 100) == 8
    assert limit_jobs(8, []) == 1
