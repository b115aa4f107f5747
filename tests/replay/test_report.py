"""What a run came to, for people, scripts and a CI."""

from typing import Any
from xml.etree import ElementTree

from open_token.replay.asked import Asked, Said
from open_token.replay.playing import Rules, Run
from open_token.replay.recording import recording_of
from open_token.replay.report import around, as_junit, as_object, report_of


def run_of(*texts: str) -> Run:
    events: list[dict[str, Any]] = []
    for text in texts:
        events += [
            {"seq": len(events) + 1, "type": "message", "role": "user", "content": {"text": text}},
            {
                "seq": len(events) + 2,
                "type": "message",
                "role": "assistant",
                "content": {"text": "ok"},
            },
        ]
    return Run(recording_of({"events": events}), Rules())  # type: ignore[typeddict-item]


def ask(run: Run, text: str) -> None:
    run.ask(Asked("chat", "m", False, [Said("user", text)]))


def test_a_run_that_never_began() -> None:
    run = run_of("one", "two")
    report = report_of(run, str, 0)
    assert report.parting is not None
    assert (report.parting.step, report.parting.where) == (1, "it was never asked for")
    assert as_object(report, "talk")["same"] is False


def test_junit_has_a_case_for_each_step() -> None:
    run = run_of("one", "two", "three")
    ask(run, "one")
    ask(run, "tvo \x1b[31m<&\x00\ud800")
    cases = list(ElementTree.fromstring(as_junit(report_of(run, str), run, 'a "talk" <1>')))
    assert [[child.tag for child in case] for case in cases] == [[], ["failure"], ["skipped"]]
    assert cases[1][0].attrib["message"] == "the prompt"
    assert "recorded: two" in str(cases[1][0].text)


def test_junit_fails_where_the_command_does() -> None:
    run = run_of("one")
    ask(run, "one")
    suite = ElementTree.fromstring(as_junit(report_of(run, str, 7), run, "talk"))
    assert [(case.attrib["name"], [child.attrib for child in case]) for case in suite] == [
        ("step 1", []),
        ("the command", [{"message": "it ended with 7"}]),
    ]
    assert (suite.attrib["tests"], suite.attrib["failures"]) == ("2", "1")
    assert b"the command" not in as_junit(report_of(run, str, 0), run, "talk")


def test_what_is_shown_is_masked_whole_before_it_is_cut() -> None:
    run = run_of("x" * 200 + " word plum plum plum " + "y" * 200)
    ask(run, "x" * 200 + " word pear pear pear " + "y" * 200)
    masked = report_of(
        run, lambda text: text.replace("plum", "****").replace("pear", "++++")
    ).parting
    assert masked is not None
    assert "plum" not in masked.recorded
    assert "pear" not in masked.given
    assert masked.recorded.startswith("...")
    assert masked.recorded.endswith("...")


def test_the_first_place_where_two_texts_differ() -> None:
    assert around("abc", "abd") == ("abc", "abd")
    assert around("", "x") == ("", "x")
    one, other = around("a" * 500 + "x", "a" * 500 + "y")
    assert one[-1] + other[-1] == "xy"
    assert len(one) < 100
