"""What a server counts of itself, in the text form that Prometheus reads; no name of a person or
session is in it."""

import resource
import sys
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from open_token.server.bus.interface import Bus, Listener, LogAppended

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_Labels = tuple[tuple[str, str], ...]
_HELP = {
    "open_token_requests_total": ("counter", "Requests answered."),
    "open_token_request_seconds": ("histogram", "Time until a request was answered."),
    "open_token_events_total": ("counter", "Entries appended to logs by this node."),
    "open_token_runs_started_total": ("counter", "Runs of agents that began."),
    "open_token_runs_ended_total": ("counter", "Runs of agents that ended."),
    "open_token_subscribers": ("gauge", "Those who watch a session on this node."),
    "process_resident_memory_bytes": ("gauge", "Memory of the process."),
    "process_cpu_seconds_total": ("counter", "Processor time."),
    "process_start_time_seconds": (
        "gauge",
        "When the process began to count, in seconds since 1970.",
    ),
}


class Metrics:
    """Counters, histograms and gauges of one node."""

    def __init__(self) -> None:
        self.began = time.time()
        self.subscribers = 0
        self._counts: Counter[tuple[str, _Labels]] = Counter()
        self._times: dict[tuple[str, _Labels], _Times] = {}

    def count(self, name: str, by: int = 1, **labels: str) -> None:
        """One more, or several."""
        self._counts[name, tuple(labels.items())] += by

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Something took so long."""
        key = (name, tuple(labels.items()))
        known = self._times.get(key)
        if known is None:
            known = self._times[key] = _Times()
        known.add(seconds)

    def text(self) -> str:
        """All of it, for Prometheus."""
        found: dict[str, list[str]] = {name: [] for name in _HELP}
        for (name, labels), value in sorted(self._counts.items()):
            found[name].append(f"{name}{_shown(labels)} {value}")
        for (name, labels), times in sorted(self._times.items(), key=lambda item: item[0]):
            found[name] += times.lines(name, labels)
        for name, level in self._gauges().items():
            found[name].append(f"{name} {level}")
        lines: list[str] = []
        for name, (kind, words) in _HELP.items():
            if found[name]:
                lines += [f"# HELP {name} {words}", f"# TYPE {name} {kind}", *found[name]]
        return "\n".join(lines) + "\n"

    def _gauges(self) -> dict[str, float]:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "open_token_subscribers": self.subscribers,
            "process_resident_memory_bytes": _resident(used),
            "process_cpu_seconds_total": round(used.ru_utime + used.ru_stime, 3),
            "process_start_time_seconds": round(self.began, 3),
        }


def _resident(used: resource.struct_rusage) -> int:
    """The memory that the process has by now; where the system does not tell, the most it ever
    had."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


class _Times:
    """A histogram."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds

    def lines(self, name: str, labels: _Labels) -> Iterator[str]:
        so_far = 0
        for bound, count in zip((*map(str, BOUNDS), "+Inf"), self.counts, strict=True):
            so_far += count
            yield f"{name}_bucket{_shown((*labels, ('le', bound)))} {so_far}"
        yield f"{name}_sum{_shown(labels)} {self.total:.6f}"
        yield f"{name}_count{_shown(labels)} {so_far}"


def _shown(labels: _Labels) -> str:
    inner = ",".join(f'{name}="{_quoted(value)}"' for name, value in labels)
    return f"{{{inner}}}" if inner else ""


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class CountingBus:
    """A bus that also counts what is said over it and who listens."""

    def __init__(self, bus: Bus, metrics: Metrics) -> None:
        self._bus = bus
        self._metrics = metrics

    @property
    def is_linked(self) -> bool:
        """Whether other nodes hear of it at once; inside one process there is nothing to be linked
        to."""
        return bool(getattr(self._bus, "is_linked", True))

    async def start(self) -> None:
        """Connect."""
        await self._bus.start()

    async def close(self) -> None:
        """Let go."""
        await self._bus.close()

    def publish(self, grown: LogAppended) -> None:
        """Say that a session has grown."""
        for entry in grown.entries:
            self._metrics.count("open_token_events_total")
            if entry.kind == "run.started":
                self._metrics.count("open_token_runs_started_total")
            elif entry.kind == "run.ended":
                self._metrics.count(
                    "open_token_runs_ended_total", status=entry.data.get("status", "completed")
                )
        self._bus.publish(grown)

    def listen(self, session_id: str, listener: Listener) -> Callable[[], None]:
        """Hear of a session until the returned function is called."""
        stop = self._bus.listen(session_id, listener)
        self._metrics.subscribers += 1
        stopped: list[bool] = []

        def once() -> None:
            if not stopped:
                stopped.append(True)
                self._metrics.subscribers -= 1
            stop()

        return once
