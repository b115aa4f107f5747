"""Runs a target on mutated inputs for a while: guided by coverage where atheris is installed, else
at random."""

import contextlib
import importlib.util
import io
import os
import random
import re
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from fuzzing.mutate import Mutator, by_byte
from fuzzing.shrink import shrink

ROOT = Path(__file__).resolve().parent.parent.parent
OUT = ROOT / "bench" / "out" / "fuzz"
SLOWEST = 1.5
"""Seconds of processor time that the smallest input may take, with all that is tried on it."""
SLOWEST_BYTE = 80e-6
"""Seconds more for each byte of it."""
MOST_FINDINGS = 40
LONGEST = 1 << 16


class Violated(AssertionError):
    """A property does not hold; the first word names it."""


class TooSlow(Violated):
    """An input took far longer than its size explains."""


class Target(Protocol):
    """What a target's module defines."""

    def seeds(self, more: list[Path], one_in: int = 1) -> list[bytes]:
        """Return where mutation starts from: one conversation in so many, and those in `more`."""
        ...

    def settings_for(self, data: bytes) -> Any:
        """How an input is treated: decided by the input alone, so that it can be run again."""
        ...

    def check(self, data: bytes, settings: Any) -> None:
        """Run one input; any exception is a finding."""
        ...


class Campaign:
    """Counts what was run and keeps each new kind of finding, made small."""

    def __init__(self, name: str, target: Target, folder: Path | None = OUT) -> None:
        self.name = name
        self.target = target
        self._folder = folder
        self.executions = 0
        self.findings: dict[str, bytes] = {}

    def run(self, data: bytes) -> None:
        """One input."""
        self.executions += 1
        settings = self.target.settings_for(data)
        problem = self._problem(data, settings)
        if problem is not None and signature(problem) not in self.findings:
            self._keep(data, settings, problem)

    def _problem(self, data: bytes, settings: Any) -> Exception | None:
        try:
            with within(SLOWEST + SLOWEST_BYTE * len(data)):
                self.target.check(data, settings)
        except Exception as problem:
            return problem
        return None

    def _keep(self, data: bytes, settings: Any, problem: Exception) -> None:
        kind = signature(problem)
        self.findings[kind] = data
        if len(self.findings) > MOST_FINDINGS:
            return

        def fails(smaller: bytes) -> bool:
            found = self._problem(smaller, settings)
            return found is not None and signature(found) == kind

        small = data if isinstance(problem, TooSlow) else shrink(data, fails)
        problem = self._problem(small, settings) or problem
        self.findings[kind] = small
        self._write(kind, small, data, settings, problem)

    def _write(
        self, kind: str, small: bytes, data: bytes, settings: Any, problem: Exception
    ) -> None:
        if self._folder is None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        stem = f"{self.name}-{len(self.findings):02d}-{re.sub('[^A-Za-z0-9]+', '-', kind)[:70].strip('-')}"
        (self._folder / f"{stem}.bin").write_bytes(small)
        (self._folder / f"{stem}.whole").write_bytes(data)
        result = "".join(traceback.format_exception(problem))
        (self._folder / f"{stem}.txt").write_text(
            f"{kind}\n{settings!r}\n{small[:4000]!r}\n\n{result}", "utf-8", "replace"
        )
        print(f"finding: {kind}", flush=True)


def signature(problem: Exception) -> str:
    """What distinguishes findings: the property, or the exception and the line of ours that
    raised it."""
    if isinstance(problem, Violated) and not isinstance(problem, TooSlow):
        return str(problem).partition(":")[0]
    frames = traceback.extract_tb(problem.__traceback__)
    ours = [frame for frame in frames if f"{os.sep}open_token{os.sep}" in frame.filename] or list(
        frames
    )
    place = (
        f"{Path(ours[-1].filename).name} {ours[-1].name} {ours[-1].lineno}" if ours else "nowhere"
    )
    return f"{type(problem).__name__} in {place}"


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Stop what takes too much processor time."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TooSlow(f"slow: more than {seconds} s")

    signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def main(name: str, module: str, words: list[str]) -> int:
    """`tests/longrun/fuzz_NAME.py SECONDS [--blind] [FOLDER ...]`: folders hold more seeds. Exit 1 when
    something was found."""
    is_blind = "--blind" in words
    words = [word for word in words if word != "--blind"]
    seconds = float(words[0]) if words else 60.0
    guided = importlib.util.find_spec("atheris") is not None and not is_blind
    with watched() if guided else contextlib.nullcontext():
        target: Any = import_module(module)
    seeds = target.seeds([Path(word) for word in words[1:]])
    campaign = Campaign(name, target)
    print(
        f"{name}: {len(seeds)} seeds, {seconds:g} s, {'guided by coverage' if guided else 'at random'}",
        flush=True,
    )
    for data in seeds:
        campaign.run(data)
    (run_guided if guided else run_at_random)(campaign, seeds, time.monotonic() + seconds)
    return 1 if campaign.findings else 0


@contextlib.contextmanager
def watched() -> Iterator[None]:
    """Import ours so that atheris sees which lines run."""
    import atheris

    with (
        contextlib.redirect_stderr(io.StringIO()),
        atheris.instrument_imports(include=["open_token"]),
    ):
        yield


def inputs(
    seeds: list[bytes], rng: random.Random, kind: Callable[[bytes], str] | None = None
) -> Iterator[bytes]:
    """Mutated seeds without end, of each kind as many, and now and then a mutated one mutated
    again."""
    mutator = Mutator(seeds)
    pools: dict[str, list[bytes]] = {}
    for data in seeds:
        pools.setdefault(kind(data) if kind else "", []).append(data)
    sizes = {name: len(pool) for name, pool in pools.items()}
    while True:
        name = rng.choice(list(pools))
        pool, size = pools[name], sizes[name]
        data = mutator.change(rng.choice(pool), rng)[:LONGEST]
        yield data
        if rng.random() < 0.02:
            pool[size:] = [*pool[size:], data][-2 * size :]


def run_at_random(campaign: Campaign, seeds: list[bytes], deadline: float) -> None:
    """Without atheris: random bytes."""
    started = time.monotonic()
    for data in inputs(seeds, random.Random(), getattr(campaign.target, "kind", None)):
        campaign.run(data)
        if time.monotonic() > deadline:
            break
    summary(campaign, started)


def run_guided(campaign: Campaign, seeds: list[bytes], deadline: float) -> None:
    """Let libFuzzer choose what to mutate by the lines it reaches; it never returns, so the end is
    here."""
    import atheris

    mutator = Mutator(seeds)
    started = time.monotonic()

    def change(data: bytes, size: int, seed: int) -> bytes:
        rng = random.Random(seed)
        return (
            mutator.change(data, rng)
            if rng.random() < 0.95
            else by_byte(atheris.Mutate(data, size), rng)
        )[:size]

    def one(data: bytes) -> None:
        campaign.run(data)
        if time.monotonic() > deadline:
            summary(campaign, started)
            sys.stdout.flush()
            os._exit(1 if campaign.findings else 0)

    corpus = OUT / f"corpus-{campaign.name}"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(seeds):
        (corpus / f"seed-{number:03d}").write_bytes(data)
    flags = [
        f"-max_len={LONGEST}",
        "-timeout=100000",
        "-rss_limit_mb=0",
        "-verbosity=0",
        f"-artifact_prefix={OUT}{os.sep}",
    ]
    atheris.Setup([sys.argv[0], *flags, str(corpus)], one, custom_mutator=change)
    atheris.Fuzz()


def summary(campaign: Campaign, started: float) -> None:
    """What was run and what was found."""
    seconds = time.monotonic() - started
    rate = campaign.executions / max(seconds, 0.001)
    print(
        f"{campaign.executions} executions in {seconds:.0f} s, {rate:.0f} a second, {len(campaign.findings)} findings"
    )
    for kind, data in campaign.findings.items():
        print(f"  {kind} ({len(data)} bytes)")
    if campaign.findings:
        print(f"inputs and tracebacks: {OUT.relative_to(ROOT)}")
