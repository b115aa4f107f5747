"""The spec, rule by rule, through the front door: small conversations go in, documents come out.

docs/reference/spec-coverage.md names, for every rule, the test that shows it.
"""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
import rfc8785

import open_token
from open_token.cli import main
from open_token.errors import SizeLimitError
from readers.provider_readers import tokens

Json = dict[str, Any]

MARK = re.compile(r"\[REDACTED:([a-z_]+):([0-9a-f]{8})\]")
TOKEN = "ghp_" + "a1B2" * 9
KEY_FILE = "\n".join(
    ["-----BEGIN " + "PRIVATE KEY-----", "MIIEvQIB" + "aZ09" * 40, "-----END " + "PRIVATE KEY-----"]
)
SECRETS = {
    "an API key": "sk-" + "proj-" + "Ab1Cd2Ef3G" * 5,
    "an auth token": TOKEN,
    "a password": "kV9#tide-" + "Qw7pLm2x",
    "a session cookie": "s%3A" + "j4Kq9ZpX" * 4,
    "a private key": KEY_FILE,
}
WHERE = {
    "an API key": "OPENAI_API_KEY={}",
    "an auth token": "use the token {} for it",
    "a password": "password: {}",
    "a session cookie": "Cookie: connect.sid={}; theme=dark",
    "a private key": "{}",
}
PERSONAL = {
    "an e-mail address": "mara.lund@" + "harbour.example",
    "a telephone number": "+49 30 " + "901820 47",
    "a street address": "221B " + "Baker Street, London NW1 6XE",
    "a personal identifier": "1234567" + "8Z",
}


def message(role: str, content: Any, **more: Any) -> Json:
    return {"role": role, "content": content, **more}


def call(id: str, name: str, arguments: str) -> Json:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def chat(*messages: Json, **body: Any) -> bytes:
    """A request of the Chat Completions API."""
    return json.dumps({"model": "gpt-4o", "messages": list(messages), **body}).encode()


def build_session(text: str = "hello") -> bytes:
    return chat(message("user", text), message("assistant", "hi"))


TOOLS = chat(
    message("system", "You plan boat trips."),
    message("developer", "Be brief."),
    message("user", "When is high water?"),
    message("assistant", None, tool_calls=[call("call_a", "tides", '{"day": "Saturday"}')]),
    message("tool", "high 07:40", tool_call_id="call_a"),
    message("assistant", "At 07:40."),
)
SYSTEM, DEVELOPER, USER, CALL, RESULT, ANSWER = range(6)

THINKING = json.dumps(
    {
        "model": "claude-sonnet-4-5",
        "max_tokens": 100,
        "system": "You count sheep.",
        "messages": [
            message("user", [{"type": "text", "text": "How many?"}]),
            message(
                "assistant",
                [
                    {
                        "type": "thinking",
                        "thinking": "Three are white. One is black.",
                        "signature": "c2ln",
                    },
                    {"type": "text", "text": "Four."},
                ],
            ),
        ],
    }
).encode()


def claude(*lines: Json) -> bytes:
    """A session of Claude Code; each line follows the one before."""
    made = []
    for number, line in enumerate(lines, 1):
        common = {
            "parentUuid": f"5eed0000-0000-4000-8000-{number - 1:012d}" if number > 1 else None,
            "uuid": f"5eed0000-0000-4000-8000-{number:012d}",
            "timestamp": f"2026-02-03T10:00:{number:02d}.000Z",
            "sessionId": "5eed0000-1111-4000-8000-000000000001",
            "version": "2.1.0",
            "isSidechain": False,
        }
        made.append({**common, **line})
    return b"".join(json.dumps(line).encode() + b"\n" for line in made)


def said(*blocks: Json, **more: Any) -> Json:
    inner = {
        "id": "msg_1",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": list(blocks),
    }
    return {"type": "assistant", "message": inner | more.pop("message", {}), **more}


def typed(content: Any, **more: Any) -> Json:
    return {"type": "user", "message": {"role": "user", "content": content}, **more}


SPAWN = {
    "description": "count the boats",
    "prompt": "Count them.",
    "subagent_type": "Explore",
    "model": "haiku",
}
SUBAGENT = claude(
    typed("How many boats are there?"),
    said({"type": "tool_use", "id": "toolu_1", "name": "Task", "input": SPAWN}),
    typed("Count them.", isSidechain=True, agentId="a1", parentUuid=None),
    said(
        {"type": "text", "text": "Seven."}, message={"id": "msg_2"}, isSidechain=True, agentId="a1"
    ),
    typed([{"type": "tool_result", "tool_use_id": "toolu_1", "content": "Seven."}]),
    said({"type": "text", "text": "There are seven."}, message={"id": "msg_3"}),
)


def events(source: bytes, **options: Any) -> list[Json]:
    return [dict(event) for event in open_token.export(source, **options)["events"]]


def conversation(source: bytes, **options: Any) -> Json:
    return dict(open_token.export(source, **options)["conversation"])


def lines(source: bytes, folder: Path, **options: Any) -> list[Json]:
    open_token.export_file(source, folder / "session.ndjson", mode="ndjson", **options)
    return [json.loads(line) for line in (folder / "session.ndjson").read_bytes().splitlines()]


def texts(found: list[Json]) -> list[str]:
    return [event["content"]["text"] for event in found if "text" in event["content"]]


def errors(document: Any) -> list[str]:
    return [problem.id for problem in open_token.validate(document) if problem.severity == "error"]


class TestWhole:
    """Objective, non-negotiable rules, checklist."""

    @pytest.mark.spec("valid-json", "seq-contiguous", "calls-paired")
    @pytest.mark.parametrize(
        "source",
        [TOOLS, THINKING, SUBAGENT, build_session()],
        ids=["tools", "thinking", "subagent", "build_session"],
    )
    @pytest.mark.parametrize("include", ["visible-only", "include-internal"])
    def test_every_export_keeps_every_rule(self, source: bytes, include: str) -> None:
        document = open_token.export(source, include=include, internal="full")
        assert errors(document) == []
        assert open_token.verify(document).status == "verified"

    @pytest.mark.spec("whole-conversation")
    def test_all_that_was_said_is_there_in_order(self) -> None:
        found = events(TOOLS)
        expected = [
            "You plan boat trips.",
            "Be brief.",
            "When is high water?",
            "high 07:40",
            "At 07:40.",
        ]
        assert texts(found) == expected
        assert found[CALL]["content"]["data"]["arguments"] == {"day": "Saturday"}

    @pytest.mark.spec("no-invented-turns", "nothing-invented")
    def test_no_turn_is_made_up(self) -> None:
        found = events(chat(message("user", "hello")))
        assert [(event["type"], event["role"]) for event in found] == [("message", "user")]

    @pytest.mark.spec("causal-order")
    def test_order_is_that_of_the_source_not_of_the_clock(self) -> None:
        late = claude(
            typed("first", timestamp="2026-02-03T12:00:00Z"),
            said({"type": "text", "text": "second"}, timestamp="2026-02-03T09:00:00Z"),
        )
        assert texts(events(late)) == ["first", "second"]

    @pytest.mark.spec("machine-readable", "payload-only", "no-surrounding-text")
    def test_stdout_is_the_payload_and_nothing_else(
        self, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "session.json").write_bytes(TOOLS)
        assert main(["export", str(tmp_path / "session.json")]) == 0
        shown, remarks = capfd.readouterr()
        assert json.loads(shown)["open_token_version"] == "0.1"
        assert remarks.startswith("read ")


class TestWays:
    """The two forms of output."""

    @pytest.mark.spec(
        "single-json-object", "open-token-version", "required-top-keys", "no-extra-keys"
    )
    def test_a_document_has_the_keys_of_the_spec_and_no_others(self) -> None:
        keys = [
            "open_token_version",
            "exported_at",
            "conversation",
            "participants",
            "events",
            "integrity",
        ]
        assert list(open_token.export(TOOLS)) == keys
        assert open_token.export(TOOLS)["open_token_version"] == "0.1"

    @pytest.mark.spec("unknown-keys-omitted", "started-at")
    def test_what_cannot_be_reported_is_left_out(self) -> None:
        document = open_token.export(TOOLS, exported_at="omit", integrity="none")
        assert list(document) == ["open_token_version", "conversation", "participants", "events"]
        assert "title" not in document["conversation"]
        assert "started_at" not in document["conversation"]

    @pytest.mark.spec("exported-at")
    def test_exported_at_is_a_moment_in_utc(self) -> None:
        assert re.fullmatch(
            r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", open_token.export(TOOLS)["exported_at"]
        )
        moved = open_token.export(TOOLS, exported_at="2026-01-31T02:00:00+02:00")
        assert moved["exported_at"] == "2026-01-31T00:00:00Z"

    @pytest.mark.spec("pretty-option")
    @pytest.mark.parametrize(
        ("words", "indented"),
        [
            ({}, True),
            ({"pretty": False}, False),
            ({"mode": "ndjson"}, False),
            ({"mode": "json", "pretty": True}, True),
        ],
    )
    def test_pretty(self, words: Json, indented: bool, tmp_path: Path) -> None:
        open_token.export_file(TOOLS, tmp_path / "out", **words)
        written = (tmp_path / "out").read_bytes()
        assert (b"\n  " in written) is indented
        assert written.startswith(b"{") is True

    @pytest.mark.spec("ndjson-header", "ndjson-footer")
    def test_a_stream_is_a_header_the_events_and_a_footer(self, tmp_path: Path) -> None:
        head, *body, foot = lines(TOOLS, tmp_path)
        assert (head["type"], head["open_token_version"]) == ("header", "0.1")
        assert "exported_at" in head
        assert {line["type"] for line in body} == {"event"}
        assert (foot["type"], list(foot)) == ("footer", ["type", "integrity"])

    @pytest.mark.spec("ndjson-events")
    def test_an_event_line_is_the_event(self, tmp_path: Path) -> None:
        document = open_token.export(TOOLS)
        _, *body, _ = lines(TOOLS, tmp_path)
        assert [line.pop("type") for line in body] == ["event"] * 6
        assert [{"type": line.pop("event_type"), **line} for line in body] == document["events"]

    @pytest.mark.spec("machine-readable", "ndjson-valid-lines", "ndjson-no-array", "valid-json")
    def test_a_stream_is_no_array_and_every_line_is_json(self, tmp_path: Path) -> None:
        lines(build_session("two\nlines\u2028and more"), tmp_path)
        raw = (tmp_path / "session.ndjson").read_bytes()
        assert raw.endswith(b"}\n")
        assert all(isinstance(json.loads(line), dict) for line in raw.split(b"\n")[:-1])


class TestConversation:
    """The conversation object."""

    @pytest.mark.spec("conversation-id", "runtime-id")
    def test_the_runtimes_own_id_is_kept(self) -> None:
        assert conversation(SUBAGENT)["id"] == "5eed0000-1111-4000-8000-000000000001"

    @pytest.mark.spec("generated-id")
    def test_an_id_is_made_from_the_day_and_the_bytes(self) -> None:
        source = build_session()
        made = conversation(source, exported_at="2026-01-31T00:00:00Z")["id"]
        assert re.fullmatch(r"conv_\d{8}_[0-9a-f]{8}", made)
        assert conversation(source, exported_at="2026-01-31T00:00:00Z")["id"] == made
        assert conversation(source + b"\n", exported_at="2026-01-31T00:00:00Z")["id"] != made
        # Keyed: an id that anybody could compute would confirm a guess of what was masked.
        assert made[-8:] != hashlib.sha256(source).hexdigest()[:8]

    @pytest.mark.spec("conversation-title", "started-at", "source-runtime", "conversation-provider")
    def test_facts_are_those_of_the_source(self) -> None:
        title = {"type": "ai-title", "aiTitle": "Boats"}
        facts = conversation(claude(typed("hi"), said({"type": "text", "text": "ho"}), title))
        assert facts["title"] == "Boats"
        assert facts["started_at"] == "2026-02-03T10:00:01.000Z"
        assert (facts["source_runtime"], facts["provider"]) == ("cli", "anthropic")

    @pytest.mark.spec("conversation-timezone")
    def test_a_time_zone_is_reported_where_the_runtime_records_it(self) -> None:
        rollout = [
            {
                "type": "session_meta",
                "payload": {
                    "id": "0199c0de-0000-7000-8000-00000000000a",
                    "originator": "codex_cli_rs",
                },
            },
            {
                "type": "turn_context",
                "payload": {"model": "gpt-5.2-codex", "timezone": "Europe/Lisbon"},
            },
            {
                "type": "response_item",
                "payload": {
                    "type": "message",
                    "role": "user",
                    "content": [{"type": "input_text", "text": "hi"}],
                },
            },
        ]
        source = b"".join(
            json.dumps({"timestamp": "2026-03-02T09:00:00Z", **line}).encode() + b"\n"
            for line in rollout
        )
        assert conversation(source)["timezone"] == "Europe/Lisbon"

    @pytest.mark.spec("source-runtime", "conversation-provider", "internal-availability")
    @pytest.mark.parametrize("field", ["provider", "source_runtime", "internal_availability"])
    def test_values_outside_the_lists_are_left_out(self, field: str) -> None:
        document = open_token.export(TOOLS)
        document["conversation"][field] = "unheard-of"  # type: ignore[literal-required]
        assert conversation(json.dumps(document).encode()).get(field) != "unheard-of"

    @pytest.mark.spec(
        "redaction-object",
        "redaction-mode",
        "redaction-strategy",
        "redaction-notes",
        "redaction-as-requested",
    )
    @pytest.mark.parametrize("mode", ["secrets", "pii", "strict"])
    @pytest.mark.parametrize("strategy", ["mask", "hash", "drop"])
    def test_redaction_is_reported(self, mode: str, strategy: str) -> None:
        output = conversation(TOOLS, redact=mode, strategy=strategy)["redaction"]
        assert (output["mode"], output["strategy"]) == (mode, strategy)
        assert all(isinstance(note, str) for note in output["notes"])

    @pytest.mark.spec("redaction-object")
    def test_without_redaction_nothing_is_reported(self) -> None:
        assert "redaction" not in conversation(TOOLS, redact="none")


class TestParticipants:
    """Who took part."""

    @pytest.mark.spec(
        "correct-attribution",
        "actor-id-format",
        "participant-kind",
        "one-participant-each",
        "prompt-origin-kind",
        "known-actor",
    )
    def test_everyone_once_with_a_kind(self) -> None:
        people = open_token.export(TOOLS)["participants"]
        assert [person["actor_id"] for person in people] == [
            f"act_{n:03d}" for n in range(1, len(people) + 1)
        ]
        kind_of = {person["actor_id"]: person["kind"] for person in people}
        kinds = {event["role"]: kind_of[event["actor_id"]] for event in events(TOOLS)}
        assert kinds == {
            "system": "system",
            "developer": "system",
            "user": "human",
            "assistant": "model",
            "tool": "tool",
        }
        assert len({tuple(sorted(person.items())) for person in people}) == len(people)

    @pytest.mark.spec("participant-name", "participant-optional-keys", "model-kind")
    def test_a_model_has_its_provider_and_name(self) -> None:
        model = next(
            person
            for person in open_token.export(TOOLS)["participants"]
            if person["kind"] == "model"
        )
        assert (model["provider"], model["model"]) == ("openai", "gpt-4o")
        assert model["name"]

    @pytest.mark.spec("participant-name", "tool-kind")
    def test_a_tool_goes_by_its_name(self) -> None:
        tools = [
            person["name"]
            for person in open_token.export(TOOLS)["participants"]
            if person["kind"] == "tool"
        ]
        assert tools == ["tides"]

    @pytest.mark.spec("participant-optional-keys", "model-kind", "subagent-participant")
    def test_a_subagent_is_a_participant_of_its_own(self) -> None:
        models = [
            person
            for person in open_token.export(SUBAGENT)["participants"]
            if person["kind"] == "model"
        ]
        assert len(models) == 2
        assert [person.get("instance_id") for person in models] == [None, "a1"]


class TestEvents:
    """The shape of an event, and who said what."""

    @pytest.mark.spec("events-sorted", "event-id-format", "seq-required")
    def test_ids_and_seq(self) -> None:
        found = events(TOOLS)
        assert [event["id"] for event in found] == [f"evt_{n:06d}" for n in range(1, 7)]
        assert [event["seq"] for event in found] == list(range(1, 7))

    @pytest.mark.spec("seq-required")
    def test_seq_has_no_gap_where_thoughts_are_left_out(self) -> None:
        assert [event["seq"] for event in events(THINKING)] == [1, 2, 3]

    @pytest.mark.spec("event-timestamp", "nothing-invented")
    def test_times_are_in_utc_and_never_guessed(self) -> None:
        source = claude(
            typed("a", timestamp="2026-02-03T10:00:00+01:00"), typed("b", timestamp="yesterday")
        )
        talked = [event for event in events(source) if event["type"] == "message"]
        assert [event.get("ts") for event in talked] == ["2026-02-03T09:00:00Z", None]
        assert all("ts" not in event for event in events(TOOLS))

    @pytest.mark.spec(
        "correct-attribution",
        "tool-output-placement",
        "event-type",
        "event-visibility",
        "event-role",
        "system-prompt-role",
        "developer-role",
        "user-role",
        "assistant-role",
        "tool-call-role",
        "tool-result-role",
    )
    @pytest.mark.parametrize(
        ("place", "type", "role", "visibility"),
        [
            (SYSTEM, "message", "system", "internal"),
            (DEVELOPER, "message", "developer", "internal"),
            (USER, "message", "user", "public"),
            (CALL, "tool_use", "assistant", "internal"),
            (RESULT, "tool_result", "tool", "internal"),
            (ANSWER, "message", "assistant", "public"),
        ],
    )
    def test_role_and_visibility(self, place: int, type: str, role: str, visibility: str) -> None:
        event = events(TOOLS)[place]
        assert (event["type"], event["role"], event["visibility"]) == (type, role, visibility)

    @pytest.mark.spec("content-shape", "text-content", "data-content")
    def test_text_is_plain_and_data_is_json(self) -> None:
        picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
        found = events(
            chat(
                message("user", [{"type": "text", "text": "look"}, picture]),
                message("assistant", "nice"),
            )
        )
        assert found[0]["content"].keys() == {"mime", "data"}
        assert found[0]["content"]["mime"] == "application/json"
        assert found[1]["content"] == {"mime": "text/plain", "text": "nice"}

    @pytest.mark.spec("usage-counts", "usage-only-known")
    def test_usage_only_where_the_source_counts(self) -> None:
        assert all("usage" not in event for event in events(TOOLS))
        counted = claude(
            typed("hi"),
            said(
                {"type": "text", "text": "ho"},
                message={"usage": {"input_tokens": 5, "output_tokens": 2}},
            ),
        )
        assert events(counted)[-1]["usage"] == tokens(input_tokens=5, output_tokens=2)

    @pytest.mark.spec("event-links", "tool-result-content")
    def test_links_lead_to_what_they_name(self) -> None:
        source = claude(
            typed("run it"),
            said(
                {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "false"}}
            ),
            typed(
                [
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_1",
                        "content": "failed",
                        "is_error": True,
                    }
                ]
            ),
        )
        found = events(source)
        result = next(event for event in found if event["type"] == "tool_result")
        facts = next(event for event in found if event.get("links", {}).get("parent_id"))
        assert facts["links"]["parent_id"] == result["id"]
        assert facts["content"]["data"]["is_error"] is True


class TestThoughts:
    """Hidden reasoning."""

    def thought(self, **options: Any) -> Json | None:
        found = events(THINKING, **options)
        return next((event for event in found if event["role"] == "assistant_thought"), None)

    @pytest.mark.spec("include-option", "internal-availability", "reasoning-omitted")
    def test_it_is_left_out_unless_asked_for(self) -> None:
        assert self.thought() is None
        assert self.thought(internal="full") is None
        assert conversation(THINKING)["internal_availability"] == "available"

    @pytest.mark.spec("internal-option", "internal-redacted", "reasoning-role", "reasoning-content")
    def test_a_placeholder_holds_no_word(self) -> None:
        thought = self.thought(include="include-internal")
        assert thought is not None
        assert thought["visibility"] == "internal"
        assert thought["content"] == {"mime": "application/json", "data": {"redacted": True}}

    @pytest.mark.spec("internal-summary", "reasoning-content")
    def test_a_summary_is_brief(self) -> None:
        thought = self.thought(include="include-internal", internal="summary")
        assert thought is not None
        assert thought["content"]["text"] == "Three are white."

    @pytest.mark.spec("internal-full", "reasoning-content")
    def test_full_is_verbatim(self) -> None:
        thought = self.thought(include="include-internal", internal="full")
        assert thought is not None
        assert thought["content"] == {
            "mime": "text/plain",
            "text": "Three are white. One is black.",
        }

    @pytest.mark.spec(
        "no-invented-traces",
        "availability-unavailable",
        "no-substitute-content",
        "tools-always-exported",
        "reasoning-omitted",
        "traces-if-available",
    )
    def test_what_is_not_there_is_not_made_up(self) -> None:
        source = claude(
            typed("list"),
            said({"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}),
            typed([{"type": "tool_result", "tool_use_id": "toolu_1", "content": "a b"}]),
        )
        document = open_token.export(source, include="include-internal", internal="full")
        assert document["conversation"]["internal_availability"] == "unavailable"
        roles = [event.get("role") for event in document["events"]]
        assert "assistant_thought" not in roles
        assert [event["type"] for event in document["events"] if event.get("role")] == [
            "message",
            "tool_use",
            "tool_result",
        ]

    @pytest.mark.spec("availability-unavailable")
    def test_a_format_without_reasoning_reports_it_as_unknown(self) -> None:
        assert conversation(build_session())["internal_availability"] == "unknown"


class TestTools:
    """Calls and results."""

    @pytest.mark.spec("event-links", "tool-pairing", "shared-call-id", "tool-name")
    def test_a_call_and_its_result_share_a_call_id(self) -> None:
        found = events(TOOLS)
        assert found[CALL]["links"] == found[RESULT]["links"] == {"call_id": "call_000001"}
        assert found[CALL]["content"]["mime"] == "application/json"
        assert found[CALL]["content"]["data"]["tool_name"] == "tides"

    @pytest.mark.spec("tool-arguments")
    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            ('{"n": 5}', {"n": 5}),
            ("[1, 2]", [1, 2]),
            ("five", {"raw": "five"}),
            ('"five"', {"raw": '"five"'}),
        ],
    )
    def test_arguments_are_an_object_or_an_array(self, given: str, expected: Any) -> None:
        source = chat(
            message("user", "go"), message("assistant", None, tool_calls=[call("a", "sum", given)])
        )
        assert events(source)[1]["content"]["data"]["arguments"] == expected

    @pytest.mark.spec("tool-output-placement", "tool-result-content", "text-tool-output")
    def test_text_from_a_tool_is_text(self) -> None:
        assert events(TOOLS)[RESULT]["content"] == {"mime": "text/plain", "text": "high 07:40"}

    @pytest.mark.spec("structured-tool-output")
    def test_structure_from_a_tool_is_data(self) -> None:
        blocks = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
        source = claude(
            typed("list"),
            said({"type": "tool_use", "id": "toolu_1", "name": "mcp__x__list", "input": {}}),
            typed([{"type": "tool_result", "tool_use_id": "toolu_1", "content": blocks}]),
        )
        result = next(event for event in events(source) if event["type"] == "tool_result")
        assert result["content"]["mime"] == "application/json"
        assert [block["text"] for block in result["content"]["data"]] == ["a", "b"]

    @pytest.mark.spec("unanswered-call", "missing-result", "calls-paired")
    def test_a_result_that_never_came_is_marked(self) -> None:
        source = chat(
            message("user", "go"), message("assistant", None, tool_calls=[call("a", "sum", "{}")])
        )
        use, result = events(source)[1:3]
        assert (use["type"], result["type"]) == ("tool_use", "tool_result")
        assert result["content"] == {"mime": "application/json", "data": {"missing_result": True}}
        assert use["links"]["call_id"] == result["links"]["call_id"]

    @pytest.mark.spec("missing-result-annotation")
    def test_why_a_result_never_came_is_reported_where_it_is_known(self) -> None:
        source = claude(
            typed("go"),
            said(
                {
                    "type": "tool_use",
                    "id": "toolu_1",
                    "name": "Bash",
                    "input": {"command": "sleep 9"},
                }
            ),
            typed([{"type": "text", "text": "[Request interrupted by user for tool use]"}]),
        )
        found = events(source)
        assert {"missing_result": True} in [event["content"].get("data") for event in found]
        assert "interrupted" in [
            event["content"]["data"].get("kind") for event in found if event["type"] == "annotation"
        ]

    @pytest.mark.spec("no-invented-turns")
    def test_a_result_without_a_call_is_explained_and_no_call_is_made_up(self) -> None:
        found = events(
            chat(
                message("user", "go"),
                message("tool", "12", tool_call_id="gone"),
                message("assistant", "ok"),
            )
        )
        assert [event["type"] for event in found] == [
            "message",
            "tool_result",
            "annotation",
            "message",
        ]
        assert found[2]["links"]["parent_id"] == found[1]["id"]


class TestSubagents:
    """Spans."""

    @pytest.mark.spec("event-type", "span-start", "span-events", "span-end")
    def test_a_span_wraps_what_a_subagent_does(self) -> None:
        inside = [
            event
            for event in events(SUBAGENT)
            if event.get("links", {}).get("span_id") == "span_000001"
        ]
        assert [event["type"] for event in inside] == [
            "span_start",
            "message",
            "message",
            "span_end",
        ]
        assert [event["seq"] for event in inside] == list(
            range(inside[0]["seq"], inside[0]["seq"] + 4)
        )

    @pytest.mark.spec("subagent-participant")
    def test_its_words_are_its_own(self) -> None:
        document = open_token.export(SUBAGENT)
        who = {person["actor_id"]: person for person in document["participants"]}
        messages = [event for event in document["events"] if event["type"] == "message"]
        speaker = who[
            next(event["actor_id"] for event in messages if event["content"]["text"] == "Seven.")
        ]
        assert (speaker["kind"], speaker.get("instance_id")) == ("model", "a1")

    @pytest.mark.spec("span-start-data")
    def test_why_it_was_started_stands_in_its_span(self) -> None:
        start = next(event for event in events(SUBAGENT) if event["type"] == "span_start")
        data = start["content"]["data"]
        assert data["spawn_reason"] == "count the boats"
        assert (data["tooling_scope"], data["model"]) == ("Explore", "haiku")


class TestRedaction:
    """What is masked, and how."""

    @pytest.mark.spec(
        "redact-option", "redaction-applied", "redact-secrets", "redaction-as-requested"
    )
    @pytest.mark.parametrize("what", SECRETS)
    def test_secrets_are_masked_unless_asked_otherwise(self, what: str) -> None:
        source = build_session(WHERE[what].format(SECRETS[what]))
        assert SECRETS[what] not in texts(events(source))[0]
        assert MARK.search(texts(events(source))[0])
        assert SECRETS[what] in texts(events(source, redact="none"))[0]

    @pytest.mark.spec("redact-pii", "redaction-as-requested")
    @pytest.mark.parametrize("what", PERSONAL)
    def test_personal_data_is_masked_on_request(self, what: str) -> None:
        lead = "my DNI is" if what == "a personal identifier" else "reach me at"
        source = build_session(f"{lead} {PERSONAL[what]}.")
        assert PERSONAL[what] in texts(events(source))[0]
        assert PERSONAL[what] not in texts(events(source, redact="pii"))[0]

    @pytest.mark.spec("redact-pii", "redact-strict")
    def test_with_personal_data_secrets_are_masked_too(self) -> None:
        for level in ("pii", "strict"):
            shown = texts(
                events(build_session(f"{TOKEN} {PERSONAL['an e-mail address']}"), redact=level)
            )[0]
            assert [found[0] for found in MARK.findall(shown)] == ["github_token", "email"]

    @pytest.mark.spec("redact-strict", "redaction-as-requested")
    def test_strict_hides_prompts_and_tool_output(self) -> None:
        found = events(TOOLS, redact="strict")
        for place in (SYSTEM, DEVELOPER, RESULT):
            assert MARK.fullmatch(found[place]["content"]["text"])
        assert texts([found[USER], found[ANSWER]]) == ["When is high water?", "At 07:40."]
        assert found[CALL]["content"]["data"]["tool_name"] == "tides"

    @pytest.mark.spec("redaction-applied", "redact-none")
    def test_none_changes_nothing(self) -> None:
        words = " ".join([*SECRETS.values(), *PERSONAL.values()])
        assert texts(events(build_session(words), redact="none"))[0] == words

    @pytest.mark.spec("redact-none-policy")
    def test_policy_can_mask_private_keys_always(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("OPEN_TOKEN_HOME", str(tmp_path))
        (tmp_path / "settings").mkdir()
        (tmp_path / "settings" / "config.toml").write_text(
            "[policy]\nnever_export_private_keys = true\n"
        )
        shown = texts(events(build_session(f"{TOKEN} {KEY_FILE}"), redact="none"))[0]
        assert KEY_FILE not in shown
        assert TOKEN in shown

    @pytest.mark.spec("marker-grammar", "redaction-context")
    def test_a_marker_shows_type_and_hash_and_text_around_it_is_unchanged(self) -> None:
        shown = texts(events(build_session(f'("{TOKEN}", {TOKEN});')))[0]
        marks = MARK.findall(shown)
        assert [mark[0] for mark in marks] == ["github_token", "github_token"]
        assert marks[0][1] == marks[1][1]
        assert MARK.sub("*", shown) == '("*", *);'

    @pytest.mark.spec("redaction-notes", "notes-without-values")
    def test_notes_count_and_hold_no_value(self) -> None:
        notes = conversation(build_session(f"{TOKEN} and again {TOKEN}"))["redaction"]["notes"]
        assert any("github_token" in note and "2" in note for note in notes)
        assert TOKEN not in "".join(notes)

    @pytest.mark.spec("redact-secrets")
    def test_it_reaches_arguments_output_names_and_titles(self) -> None:
        source = chat(
            message("user", "go", name="bot"),
            message(
                "assistant",
                None,
                tool_calls=[call("a", "push", json.dumps({"env": [{"GITHUB": TOKEN}]}))],
            ),
            message("tool", json.dumps({"out": f"token={TOKEN}"}), tool_call_id="a"),
        )
        assert TOKEN not in json.dumps(open_token.export(source))


class TestTruncation:
    """max_bytes."""

    LONG = "".join(chr(ord("a") + n % 26) for n in range(6000))

    @pytest.mark.spec("max-bytes-option", "truncation-trigger")
    def test_nothing_is_cut_where_it_fits(self) -> None:
        assert texts(events(build_session(self.LONG), max_bytes=100_000))[0] == self.LONG

    @pytest.mark.spec("deterministic-truncation", "truncation-ends", "truncated-text")
    def test_a_long_text_keeps_its_ends_and_says_so(self) -> None:
        content = events(build_session(self.LONG), max_bytes=5_000)[0]["content"]
        assert content["mime"] == "text/plain"
        assert content["text"] == self.LONG[:1024] + "…" + self.LONG[-256:]
        assert content["data"] == {"truncated": True, "original_length": 6000}

    @pytest.mark.spec("truncation-order")
    def test_the_largest_goes_first(self) -> None:
        source = chat(message("user", self.LONG), message("assistant", self.LONG[:2000]))
        first, second = events(source, max_bytes=6_000)
        assert first["content"]["data"]["truncated"] is True
        assert second["content"]["text"] == self.LONG[:2000]

    @pytest.mark.spec("truncated-json")
    def test_long_data_says_so_in_its_structure(self) -> None:
        arguments = json.dumps({"path": "a.txt", "body": self.LONG})
        source = chat(
            message("user", "go"),
            message("assistant", None, tool_calls=[call("a", "write", arguments)]),
        )
        data = events(source, max_bytes=5_000)[1]["content"]["data"]
        assert data["arguments"]["truncated"] is True
        assert data["arguments"]["path"] == "a.txt"
        assert "…" in data["arguments"]["body"]

    @pytest.mark.spec("truncation-trigger")
    @pytest.mark.parametrize("mode", ["json", "ndjson"])
    @pytest.mark.parametrize("integrity", ["hash", "none"])
    def test_the_bytes_written_are_within_the_limit(
        self, mode: str, integrity: str, tmp_path: Path
    ) -> None:
        words = {"mode": mode, "integrity": integrity, "max_bytes": 5_000}
        receipt = open_token.export_file(build_session(self.LONG), tmp_path / "out", **words)
        assert (tmp_path / "out").stat().st_size == receipt.bytes <= 5_000

    @pytest.mark.spec("deterministic-truncation")
    def test_the_same_input_is_cut_the_same(self, tmp_path: Path, known_key: bytes) -> None:
        for name in ("a", "b"):
            open_token.export_file(
                build_session(self.LONG), tmp_path / name, max_bytes=5_000, exported_at="omit"
            )
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()

    @pytest.mark.spec("no-dropped-events")
    def test_no_event_is_dropped_unless_asked(self, tmp_path: Path) -> None:
        many = chat(*(message("user", f"line {n}") for n in range(50)))
        with pytest.raises(SizeLimitError):
            open_token.export_file(many, tmp_path / "out", max_bytes=4_000)
        assert not (tmp_path / "out").exists()

    @pytest.mark.spec("drop-oldest")
    def test_the_oldest_are_dropped_and_counted(self) -> None:
        many = chat(*(message("user", f"line {n}") for n in range(50)))
        first, *rest = events(many, max_bytes=4_000, drop="oldest")
        assert (first["type"], first["content"]["data"]["kind"]) == ("annotation", "dropped")
        assert texts(rest) == [f"line {n}" for n in range(50 - len(rest), 50)]
        assert 50 - len(rest) in first["content"]["data"].values()


class TestIntegrity:
    """Hashes."""

    @pytest.mark.spec("hash-algorithm", "canonicalization-name", "events-hash")
    def test_the_hash_is_that_of_the_canonical_events(self) -> None:
        document = open_token.export(TOOLS)
        integrity = document["integrity"]
        assert (integrity["hash_alg"], integrity["canonicalization"]) == (
            "sha256",
            "json-c14n-like",
        )
        assert (
            integrity["events_hash"]
            == hashlib.sha256(rfc8785.dumps(json.loads(json.dumps(document["events"])))).hexdigest()
        )

    @pytest.mark.spec("integrity-optional")
    def test_it_can_be_left_out(self, tmp_path: Path) -> None:
        assert "integrity" not in open_token.export(TOOLS, integrity="none")
        assert lines(TOOLS, tmp_path, integrity="none")[-1] == {"type": "footer"}
