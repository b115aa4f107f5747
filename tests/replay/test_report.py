"""The report on a replay, for people, scripts and CI."""

from typing import Any
from xml.etree import ElementTree

from open_token.replay.player import ReplayRules, ReplaySession
from open_token.replay.recording import build_recording
from open_token.replay.report import build_report, cut_around_difference, to_json_object, to_junit
from open_token.replay.requests import Message, ModelRequest


def run_of(*texts: str) -> ReplaySession:
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
    return ReplaySession(build_recording({"events": events}), ReplayRules())  # type: ignore[typeddict-item]


def ask(run: ReplaySession, text: str) -> None:
    run.ask(ModelRequest("chat", "m", False, [Message("user", text)]))


def test_a_run_that_never_began() -> None:
    run = run_of("one", "two")
    report = build_report(run, str, 0)
    assert report.divergence is not None
    assert (report.divergence.step, report.divergence.where) == (1, "it was never requested")
    assert to_json_object(report, "session")["same"] is False


def test_junit_has_a_case_for_each_step() -> None:
    run = run_of("one", "two", "three")
    ask(run, "one")
    ask(run, "tvo \x1b[31m<&\x00\ud800")
    cases = list(ElementTree.fromstring(to_junit(build_report(run, str), run, 'a "session" <1>')))
    assert [[child.tag for child in case] for case in cases] == [[], ["failure"], ["skipped"]]
    assert cases[1][0].attrib["message"] == "the prompt"
    assert "recorded: two" in str(cases[1][0].text)


def test_junit_fails_where_the_command_does() -> None:
    run = run_of("one")
    ask(run, "one")
    suite = ElementTree.fromstring(to_junit(build_report(run, str, 7), run, "session"))
    assert [(case.attrib["name"], [child.attrib for child in case]) for case in suite] == [
        ("step 1", []),
        ("the command", [{"message": "exit code 7"}]),
    ]
    assert (suite.attrib["tests"], suite.attrib["failures"]) == ("2", "1")
    assert b"the command" not in to_junit(build_report(run, str, 0), run, "session")


def test_what_is_shown_is_masked_whole_before_it_is_cut() -> None:
    run = run_of("x" * 200 + " word plum plum plum " + "y" * 200)
    ask(run, "x" * 200 + " word pear pear pear " + "y" * 200)
    masked = build_report(
        run, lambda text: text.replace("plum", "****").replace("pear", "++++")
    ).divergence
    assert masked is not None
    assert "plum" not in masked.recorded
    assert "pear" not in masked.given
    assert masked.recorded.startswith("...")
    assert masked.recorded.endswith("...")


def test_the_first_place_where_two_texts_differ() -> None:
    assert cut_around_difference("abc", "abd") == ("abc", "abd")
    assert cut_around_difference("", "x") == ("", "x")
    one, other = cut_around_difference("a" * 500 + "x", "a" * 500 + "y")
    assert one[-1] + other[-1] == "xy"
    assert len(one) < 100
