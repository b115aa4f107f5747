"""Figures in the text form of Prometheus."""

import asyncio

from open_token.model.log_events import LogEntry
from open_token.server.bus.interface import LogAppended
from open_token.server.bus.local import LocalBus
from open_token.server.metrics import CountingBus, Metrics


def test_counters_and_histograms() -> None:
    metrics = Metrics()
    metrics.count("open_token_requests_total", route="/a", status="200")
    metrics.count("open_token_requests_total", 2, route="/a", status="200")
    for seconds in (0.0005, 0.03, 60.0):
        metrics.observe("open_token_request_seconds", seconds, route="/a")
    lines = metrics.render().splitlines()
    assert 'open_token_requests_total{route="/a",status="200"} 3' in lines
    assert 'open_token_request_seconds_bucket{route="/a",le="0.001"} 1' in lines
    assert 'open_token_request_seconds_bucket{route="/a",le="0.05"} 2' in lines
    assert 'open_token_request_seconds_bucket{route="/a",le="10.0"} 2' in lines
    assert 'open_token_request_seconds_bucket{route="/a",le="+Inf"} 3' in lines
    assert 'open_token_request_seconds_count{route="/a"} 3' in lines
    assert "# TYPE open_token_request_seconds histogram" in lines


def test_labels_are_quoted() -> None:
    metrics = Metrics()
    metrics.count("open_token_requests_total", route='a"b\\c\nd')
    assert '{route="a\\"b\\\\c\\nd"} 1' in metrics.render()


def test_the_bus_counts_entries_runs_and_those_who_listen() -> None:
    metrics = Metrics()
    bus = CountingBus(LocalBus(), metrics)
    heard: list[LogAppended] = []
    stop = bus.listen("s", heard.append)
    entries = [
        LogEntry("s", 1, "", "run.started", {}),
        LogEntry("s", 2, "", "run.ended", {"status": "failed"}),
        LogEntry("s", 3, "", "text.delta", {}),
    ]
    bus.publish(LogAppended("s", "o", 1, 3, entries))
    text = metrics.render()
    assert "open_token_events_total 3\n" in text
    assert "open_token_runs_started_total 1\n" in text
    assert 'open_token_runs_ended_total{status="failed"} 1\n' in text
    assert "open_token_subscribers 1\n" in text
    stop()
    stop()
    assert "open_token_subscribers 0\n" in metrics.render()
    assert len(heard) == 1
    asyncio.run(bus.start())
    asyncio.run(bus.close())
