"""Metrics of a node in the text format of Prometheus; labels never name a person or a session."""

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
    "open_token_events_total": ("counter", "Log entries appended by this node."),
    "open_token_runs_started_total": ("counter", "Runs started."),
    "open_token_runs_ended_total": ("counter", "Runs ended."),
    "open_token_subscribers": ("gauge", "Subscribers of sessions on this node."),
    "process_resident_memory_bytes": ("gauge", "Resident memory of the process."),
    "process_cpu_seconds_total": ("counter", "CPU time of the process."),
    "process_start_time_seconds": ("gauge", "Start of the process, in seconds since 1970."),
}


class Metrics:
    """Counters, histograms and gauges of one node."""

    def __init__(self) -> None:
        self.began = time.time()
        self.subscribers = 0
        self._counts: Counter[tuple[str, _Labels]] = Counter()
        self._histograms: dict[tuple[str, _Labels], _Histogram] = {}

    def count(self, name: str, by: int = 1, **labels: str) -> None:
        """Increase a counter."""
        self._counts[name, tuple(labels.items())] += by

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Add a duration to a histogram."""
        key = (name, tuple(labels.items()))
        histogram = self._histograms.get(key)
        if histogram is None:
            histogram = _Histogram()
            self._histograms[key] = histogram
        histogram.add(seconds)

    def render(self) -> str:
        """Return all metrics as text."""
        samples: dict[str, list[str]] = {name: [] for name in _HELP}
        # Sorted, so that two scrapes list the same metrics in the same order.
        for key in sorted(self._counts):
            name, labels = key
            samples[name].append(f"{name}{_format_labels(labels)} {self._counts[key]}")
        for key in sorted(self._histograms):
            name, labels = key
            samples[name] += self._histograms[key].lines(name, labels)
        for name, level in self._gauges().items():
            samples[name].append(f"{name} {level}")

        lines: list[str] = []
        for name, (kind, text) in _HELP.items():
            if not samples[name]:
                continue
            lines.append(f"# HELP {name} {text}")
            lines.append(f"# TYPE {name} {kind}")
            lines += samples[name]
        return "\n".join(lines) + "\n"

    def _gauges(self) -> dict[str, float]:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "open_token_subscribers": self.subscribers,
            "process_resident_memory_bytes": _resident_memory(usage),
            "process_cpu_seconds_total": round(usage.ru_utime + usage.ru_stime, 3),
            "process_start_time_seconds": round(self.began, 3),
        }


def _resident_memory(usage: resource.struct_rusage) -> int:
    """Return the resident memory; the peak on systems without /proc."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        unit = 1 if sys.platform == "darwin" else 1024
        return usage.ru_maxrss * unit


class _Histogram:
    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds

    def lines(self, name: str, labels: _Labels) -> Iterator[str]:
        """Yield the samples of the histogram; its buckets are cumulative."""
        bounds = [*map(str, BOUNDS), "+Inf"]
        cumulative = 0
        for bound, count in zip(bounds, self.counts, strict=True):
            cumulative += count
            bucket_labels = _format_labels((*labels, ("le", bound)))
            yield f"{name}_bucket{bucket_labels} {cumulative}"
        formatted = _format_labels(labels)
        yield f"{name}_sum{formatted} {self.total:.6f}"
        yield f"{name}_count{formatted} {cumulative}"


def _format_labels(labels: _Labels) -> str:
    pairs = ",".join(f'{name}="{_escape(value)}"' for name, value in labels)
    return f"{{{pairs}}}" if pairs else ""


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class CountingBus:
    """A bus that counts published entries and subscribers."""

    def __init__(self, bus: Bus, metrics: Metrics) -> None:
        self._bus = bus
        self._metrics = metrics

    @property
    def is_linked(self) -> bool:
        """Whether other nodes are reached; always true for the bus of a single process."""
        return bool(getattr(self._bus, "is_linked", True))

    async def start(self) -> None:
        """Connect."""
        await self._bus.start()

    async def close(self) -> None:
        """Disconnect."""
        await self._bus.close()

    def publish(self, grown: LogAppended) -> None:
        """Announce new entries of a session."""
        for entry in grown.entries:
            self._metrics.count("open_token_events_total")
            if entry.kind == "run.started":
                self._metrics.count("open_token_runs_started_total")
            elif entry.kind == "run.ended":
                status = entry.data.get("status", "completed")
                self._metrics.count("open_token_runs_ended_total", status=status)
        self._bus.publish(grown)

    def listen(self, session_id: str, listener: Listener) -> Callable[[], None]:
        """Subscribe to a session until the returned function is called."""
        unsubscribe = self._bus.listen(session_id, listener)
        self._metrics.subscribers += 1
        is_subscribed = True

        def unsubscribe_once() -> None:
            nonlocal is_subscribed
            if is_subscribed:
                is_subscribed = False
                self._metrics.subscribers -= 1
            unsubscribe()

        return unsubscribe_once
