"""Work on many items in several processes: results in order, bounded memory, no fatal item.

`run_jobs` is the one mechanism behind `--jobs`. With one job everything happens in this process.
"""

import contextlib
import gc
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from time import monotonic
from typing import Generic, NoReturn, TypeVar

from open_token.errors import OpenTokenError

Item = TypeVar("Item")
Result = TypeVar("Result")

# So many items per process may be in work, or finished and waiting for an earlier one.
_WINDOW_PER_JOB = 8
# It takes about as long to start a process as to export this much.
_MIN_BYTES_PER_JOB = 1 << 20
# An item whose process died is tried once more: the system may have chosen its process by chance.
_MAX_ATTEMPTS = 2
_STOP_SECONDS = 5.0
# The default is 700.
_OBJECTS_PER_COLLECTION = 50_000


@dataclass(frozen=True)
class Outcome(Generic[Item, Result]):
    """What became of one item: a result, or the problem that prevented it."""

    item: Item
    result: Result | None = None
    problem: OpenTokenError | None = None
    seconds: float = 0.0
    """How long it took."""


def count_cores() -> int:
    """Return how many processes this one may use at the same time."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def limit_jobs(jobs: int, sizes: Iterable[int]) -> int:
    """Return how many processes to use for inputs of these sizes in bytes, at most `jobs`.

    One input is worked on in this process, and so is what takes less time than starting others.
    """
    known = list(sizes)
    worthwhile = sum(known) // _MIN_BYTES_PER_JOB
    return max(1, min(jobs, len(known), worthwhile))


def run_jobs(
    work: Callable[[Item], Result], items: Iterable[Item], jobs: int
) -> Generator[Outcome[Item, Result], None, None]:
    """Apply `work` to each item in up to `jobs` processes; yield the outcomes in order.

    `work`, items and results must be picklable; `work` is copied once into each process and may
    keep a cache there. An exception becomes the problem of its item, and so does a process that
    dies twice at the same item. Closing the generator, or an exception such as Ctrl-C, stops all
    processes; they remove their temporary files.
    """
    if jobs <= 1:
        with _collect_garbage_seldom():
            for item in items:
                yield _try_item(work, item)
        return
    with contextlib.closing(_Pool(work, jobs)) as pool:
        yield from pool.run(iter(items))


def _try_item(work: Callable[[Item], Result], item: Item) -> Outcome[Item, Result]:
    started = monotonic()
    result = None
    problem = None
    try:
        result = work(item)
    except OpenTokenError as error:
        problem = error
    except Exception as error:
        # Without its message, which may quote a conversation.
        problem = OpenTokenError(
            f"internal error ({type(error).__name__})",
            help="export it alone with OPEN_TOKEN_DEBUG=1",
        )
    return Outcome(item, result, problem, monotonic() - started)


class _Worker(Generic[Item, Result]):
    """One process, and the item that it works on."""

    def __init__(self, work: Callable[[Item], Result]) -> None:
        methods = get_all_start_methods()
        # A server process that forks from a clean state: safe beside threads and open databases,
        # and faster than a new interpreter for each worker.
        context = get_context("forkserver" if "forkserver" in methods else "spawn")
        if "forkserver" in methods:
            context.set_forkserver_preload(["open_token.pipeline"])
        self.connection, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(  # type: ignore[attr-defined]
            target=_serve, args=(work, theirs), daemon=True
        )
        with _block_interrupts():
            self.process.start()
        theirs.close()
        self.position = -1
        """The number of its item; -1 while it has none."""

    def wait_for_end(self) -> None:
        """Let the process remove its temporary files; one that hangs is killed."""
        self.process.join(_STOP_SECONDS)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.process.close()


class _Pool(Generic[Item, Result]):
    """Processes that are started when there is work for them, and replaced when they die."""

    def __init__(self, work: Callable[[Item], Result], jobs: int) -> None:
        self._work = work
        self._jobs = jobs
        self._workers: list[_Worker[Item, Result]] = []
        self._items: dict[int, Item] = {}
        """The items that have no outcome yet."""
        self._attempts: dict[int, int] = {}
        self._waiting: deque[int] = deque()
        self._outcomes: dict[int, Outcome[Item, Result]] = {}

    def run(self, items: Iterator[Item]) -> Iterator[Outcome[Item, Result]]:
        """Yield the outcomes in the order of the items."""
        taken = 0
        position = 0
        is_exhausted = False
        while True:
            while not is_exhausted and taken - position < self._jobs * _WINDOW_PER_JOB:
                try:
                    self._items[taken] = next(items)
                except StopIteration:
                    is_exhausted = True
                    break
                self._waiting.append(taken)
                taken += 1
                self._assign()
            if position == taken:
                return
            while position not in self._outcomes:
                self._receive()
                self._assign()
            yield self._outcomes.pop(position)
            position += 1

    def _assign(self) -> None:
        """Give waiting items to idle processes; start more processes up to the number of jobs."""
        while self._waiting:
            worker = next((worker for worker in self._workers if worker.position < 0), None)
            if worker is None:
                if len(self._workers) >= self._jobs:
                    return
                worker = _Worker(self._work)
                self._workers.append(worker)
            position = self._waiting.popleft()
            worker.position = position
            self._attempts[position] = self._attempts.get(position, 0) + 1
            # A process that died in the meantime is noticed by the next `_receive`.
            with contextlib.suppress(OSError):
                worker.connection.send(self._items[position])

    def _receive(self) -> None:
        """Wait until at least one process has something to say, or has died."""
        by_connection = {worker.connection: worker for worker in self._workers}
        for connection in wait(list(by_connection)):
            assert isinstance(connection, Connection)
            worker = by_connection[connection]
            try:
                result, problem, seconds = connection.recv()
            except (EOFError, OSError):
                self._bury(worker)
                continue
            position = worker.position
            worker.position = -1
            outcome = Outcome(self._items[position], result, problem, seconds)
            self._finish(position, outcome)

    def _finish(self, position: int, outcome: Outcome[Item, Result]) -> None:
        del self._items[position]
        del self._attempts[position]
        self._outcomes[position] = outcome

    def _bury(self, worker: _Worker[Item, Result]) -> None:
        """Forget a process that died; its item is tried again or fails."""
        self._workers.remove(worker)
        worker.connection.close()
        worker.process.join()
        code = worker.process.exitcode or 0
        worker.process.close()
        position = worker.position
        if position < 0:
            return
        if self._attempts[position] < _MAX_ATTEMPTS:
            self._waiting.appendleft(position)
            return
        reason = f"signal {-code}" if code < 0 else f"status {code}"
        problem = OpenTokenError(
            f"the process that worked on it ended unexpectedly ({reason})",
            help="it may need more memory: repeat with --jobs 1",
            code="worker.lost",
        )
        self._finish(position, Outcome(self._items[position], problem=problem))

    def close(self) -> None:
        """Stop all processes."""
        with _block_interrupts():
            for worker in self._workers:
                # Idle processes end by themselves at the end of their input.
                worker.connection.close()
                if worker.position >= 0:
                    worker.process.terminate()
            for worker in self._workers:
                worker.wait_for_end()
            self._workers.clear()


@contextlib.contextmanager
def _block_interrupts() -> Iterator[None]:
    """Hold back Ctrl-C for a moment; processes started meanwhile never see it.

    The terminal sends Ctrl-C to all processes, and only the first one is to act on it.
    """
    can_block = hasattr(signal, "pthread_sigmask")
    if not can_block or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _collect_garbage_seldom() -> Iterator[None]:
    """Let the garbage collector run less often: it would take a tenth of the time of a small item.

    What items leave behind is mostly freed without it, since it has no cycles.
    """
    before = gc.get_threshold()
    gc.set_threshold(_OBJECTS_PER_COLLECTION, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _serve(work: Callable[[Item], Result], connection: Connection) -> None:
    """Work on items until there are no more; runs in a process of its own."""
    _prepare_signals()
    with (
        contextlib.suppress(EOFError, OSError, KeyboardInterrupt),
        _collect_garbage_seldom(),
    ):
        while True:
            outcome = _try_item(work, connection.recv())
            connection.send((outcome.result, outcome.problem, outcome.seconds))


def _prepare_signals() -> None:
    """End in an orderly way when told to; ignore Ctrl-C, which the first process handles."""

    def stop(*_: object) -> NoReturn:
        # A second one must not get in the way of cleaning up.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
