"""Late facts are put into early events."""

from typing import Any

from open_token.builder.late_edits import LateEdits
from open_token.model.document import Event
from open_token.storage.spool import Spool


def spool(count: int, **more: Any) -> Spool:
    made = Spool()
    for n in range(count):
        event: Event = {"id": f"evt_{n + 1:06d}", "seq": 0, "type": "message"}
        made.append(event, 1)
    return made


def ids(events: Any) -> list[str]:
    return [event["id"][-1] for event in events]


def test_nothing_to_do() -> None:
    view = LateEdits(spool(3))
    assert not view.is_needed
    assert ids(view) == ["1", "2", "3"]


def test_insertions_stand_behind_their_place_and_get_the_next_ids() -> None:
    view = LateEdits(spool(3))
    view.insert(1, {"id": "", "type": "tool_result"})
    view.insert(0, {"id": "", "type": "tool_result"})
    view.insert(1, {"id": "", "type": "tool_result"})
    assert view.number_insertions(4) == 3
    assert ids(view) == ["1", "4", "2", "5", "6", "3"]
    assert ids(view) == ids(view)


def test_dropped_places_and_the_rest_of_a_dropped_span() -> None:
    held = Spool()
    for kind, span in [
        ("message", ""),
        ("span_start", "s1"),
        ("message", ""),
        ("span_end", "s1"),
        ("message", ""),
    ]:
        event: Any = {"id": f"evt_{len(held) + 1:06d}", "type": kind}
        if span:
            event["links"] = {"span_id": span}
        held.append(event, 1)
    view = LateEdits(held)
    view.dropped.append(range(1, 3))
    assert ids(view) == ["1", "5"]


def test_wrapped_places_join_the_span() -> None:
    view = LateEdits(spool(4))
    start: Event = {"id": "", "type": "span_start", "links": {"span_id": "span_000001"}}
    stop: Event = {"id": "", "type": "span_end", "links": {"span_id": "span_000001"}}
    view.wrap(range(1, 3), "span_000001", start, stop)
    view.number_insertions(5)
    assert ids(view) == ["1", "5", "2", "3", "6", "4"]
    spans = [event.get("links", {}).get("span_id") for event in view]
    assert spans == [None, *["span_000001"] * 4, None]


def test_late_usage_does_not_change_the_spool() -> None:
    held = spool(2)
    view = LateEdits(held)
    view.usage["evt_000002"] = {"output_tokens": 7}
    assert [event.get("usage") for event in view] == [None, {"output_tokens": 7}]
    assert [event.get("usage") for event in held] == [None, None]


def made(*rows: tuple[str, dict[str, str]]) -> Spool:
    held = Spool()
    for kind, links in rows:
        event: Any = {"id": f"evt_{len(held) + 1:06d}", "type": kind, "links": links}
        held.append(event, 1)
    return held


def test_a_pair_stays_or_goes_whole() -> None:
    view = LateEdits(
        made(
            ("tool_use", {"call_id": "c1"}),
            ("tool_use", {"call_id": "c2"}),
            ("tool_result", {"call_id": "c1"}),
            ("annotation", {"parent_id": "evt_000003"}),
            ("tool_result", {"call_id": "c2"}),
            ("annotation", {"parent_id": "evt_000005"}),
        )
    )
    view.dropped.append(range(1, 4))
    assert ids(view) == ["1", "3"]


def test_a_span_stays_or_goes_whole() -> None:
    view = LateEdits(
        made(
            ("span_start", {"span_id": "s1"}),
            ("message", {"span_id": "s1"}),
            ("span_end", {"span_id": "s1"}),
            ("message", {}),
        )
    )
    view.dropped.append(range(1, 4))
    assert ids(view) == ["1", "3"]


def test_many_branches_are_found_quickly() -> None:
    view = LateEdits(spool(20_000))
    view.dropped = [range(n, n + 1) for n in range(0, 20_000, 2)]
    assert len(list(view)) == 10_000


def test_a_branch_within_a_branch_belongs_to_the_inner_one() -> None:
    view = LateEdits(spool(4))
    for places, name in ((range(1, 2), "inner"), (range(3), "outer")):
        start: Event = {"id": "", "type": "span_start", "links": {"span_id": name}}
        stop: Event = {"id": "", "type": "span_end", "links": {"span_id": name}}
        view.wrap(places, name, start, stop)
    view.number_insertions(5)
    result = [(event["type"], event.get("links", {}).get("span_id")) for event in view]
    assert result == [
        ("span_start", "outer"),
        ("message", "outer"),
        ("span_start", "inner"),
        ("message", "inner"),
        ("span_end", "inner"),
        ("message", "outer"),
        ("span_end", "outer"),
        ("message", None),
    ]
