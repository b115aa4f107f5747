"""Histories of aider: whose line is whose, one conversation for each session, and no time that is
not known."""

from pathlib import Path
from typing import Any

import pytest

from open_token.agents.aider.session import Speaker, split_blocks
from open_token.builder.draft import Draft
from open_token.library.discovery import Discovery
from open_token.model.document import Event
from open_token.registry import READERS, detect_format
from open_token.sources.source import Source
from readers.provider_readers import tokens

READER = READERS["aider"]

START = "# aider chat started at 2026-02-01 08:15:00\n"
USER, MODEL, AIDER = Speaker.USER, Speaker.MODEL, Speaker.AIDER


def cut(text: str) -> list[tuple[Speaker, str]]:
    return [(block.speaker, block.text) for block in split_blocks(text)]


def read_text(text: str, conversation: str | None = None) -> tuple[Draft, list[Event]]:
    source = Source("x", data=text.encode())
    source.conversation = conversation
    draft = Draft()
    READER.read(source, draft)
    return draft, list(draft.finish(lambda: "0" * 64).events)


class TestBlocks:
    def test_the_three_speakers(self) -> None:
        text = "> a  \n> b  \n\n#### one  \n####   \n#### two  \n\nsaid\n\nmore\n\n> c  \n"
        assert cut(text) == [
            (AIDER, "a\nb"),
            (USER, "one\n\ntwo"),
            (MODEL, "said\n\nmore"),
            (AIDER, "c"),
        ]

    def test_consecutive_prompts_are_separate(self) -> None:
        assert cut("\n#### /undo  \n\n#### /undo  \n") == [(USER, "/undo"), (USER, "/undo")]

    def test_headings_and_quotes_in_a_response(self) -> None:
        answer = "#### Heading\n\n> quoted\n\n>>> code\n\ntext\n> in a paragraph  \nend"
        assert cut(f"#### q  \n\n{answer}\n\n> t  \n") == [
            (USER, "q"),
            (MODEL, answer),
            (AIDER, "t"),
        ]

    def test_a_notice_of_several_lines(self) -> None:
        text = "#### /test  \n> first\nmiddle\n\n> inner\nlast  \n> next  \n\nanswer\n"
        assert cut(text) == [
            (USER, "/test"),
            (AIDER, "first\nmiddle\n\n> inner\nlast\nnext"),
            (MODEL, "answer"),
        ]

    def test_a_notice_without_an_end(self) -> None:
        text = "#### /run  \n> first\nmiddle\n\n#### next  \n\nanswer\n"
        assert cut(text) == [
            (USER, "/run"),
            (AIDER, "first\nmiddle\n"),
            (USER, "next"),
            (MODEL, "answer"),
        ]

    def test_a_file_without_trailing_spaces(self) -> None:
        text = "> a\n> b\n\n#### one\n#### two\n\nsaid\n\n> c\n"
        assert cut(text) == [(AIDER, "a\nb"), (USER, "one\ntwo"), (MODEL, "said"), (AIDER, "c")]

    def test_a_blank_prompt_and_odd_lines(self) -> None:
        assert cut("####   \n") == [(USER, "")]
        assert cut("####x  \n") == [(MODEL, "####x  ")]
        assert cut("") == cut("\n\n") == []


class TestSessions:
    TEXT = f"lost words\n\n{START}\n#### one  \n\n{START}\n#### /two  \n\n# aider chat started at soon\n"

    def test_each_is_a_conversation(self) -> None:
        found = READER.list_conversations(Source("x", data=self.TEXT.encode()))
        assert [item.id for item in found] == [
            "beginning",
            "2026-02-01T08:15:00",
            "2026-02-01T08:15:00-2",
        ]
        assert [(item.title, item.started_at) for item in found] == [
            (None, None),
            ("one", "2026-02-01T08:15:00"),
            ("/two", "2026-02-01T08:15:00"),
        ]

    def test_a_session_has_its_own_time_and_a_command_may_be_its_title(
        self, tmp_path: Path
    ) -> None:
        old = "# aider chat started at 2024-05-03 10:00:00\n\n#### /add old.py  \n"
        new = "# aider chat started at 2026-02-01 08:15:00\n\n#### rename the parser  \n"
        path = tmp_path / ".aider.chat.history.md"
        path.write_text(new + old)  # copied together: the file is newer than both
        found = Discovery({}, tmp_path).sessions()
        assert [session.title for session in found] == ["rename the parser", "/add old.py"]
        assert found[0].modified > found[1].modified > 1.7e9

    def test_the_directory_is_that_of_the_history(self, tmp_path: Path) -> None:
        for name, folder in ((".aider.chat.history.md", str(tmp_path)), ("copy.md", None)):
            (tmp_path / name).write_text(self.TEXT)
            assert {item.cwd for item in READER.list_conversations(Source.of(tmp_path / name))} == {
                folder
            }

    def test_the_chosen_session_is_read(self) -> None:
        draft, events = read_text(self.TEXT, "2026-02-01T08:15:00-2")
        said = [event["content"]["text"] for event in events if event["type"] == "message"]
        assert said == ["/two", "# aider chat started at soon"]
        assert draft.fingerprint != read_text(self.TEXT, "2026-02-01T08:15:00")[0].fingerprint

    def test_parts_of_blocks_belong_to_their_session(self) -> None:
        source = Source("x", data=f"\n{self.TEXT}".encode())
        text = source.text
        pieces = [text[first : first + 7] for first in range(0, len(text), 7)]
        names = [READER.find_owner(source, f"/{n}", piece) for n, piece in enumerate(pieces, 1)]
        assert names[0] == "beginning"
        assert names[-1] == "2026-02-01T08:15:00-2"
        assert [name for n, name in enumerate(names) if n == 0 or name != names[n - 1]] == [
            item.id for item in READER.list_conversations(source)
        ]
        assert READER.find_owner(source, "/99", "/two") == "2026-02-01T08:15:00-2"
        assert READER.find_owner(source, "name", "x") is READER.find_owner(source, "/1", {}) is None

    def test_blank_lines_before_the_first_session_have_no_owner(self) -> None:
        source = Source("x", data=f"\n\n{START}".encode())
        assert len(READER.list_conversations(source)) == 1
        assert READER.find_owner(source, "/1", "\n\n") is None

    def test_an_empty_history(self) -> None:
        assert READER.list_conversations(Source("x", data=b"")) == []
        assert read_text("")[1] == []


class TestEvents:
    def test_local_times_stay_local(self) -> None:
        draft, events = read_text(f"{START}\n#### hi  \n")
        assert "started_at" not in draft.conversation
        assert [event for event in events if "ts" in event] == []
        assert events[0]["content"]["data"]["started_local"] == "2026-02-01 08:15:00"

    @pytest.mark.parametrize(
        ("line", "usage"),
        [
            (
                "Tokens: 5,244 sent, 604 received. Cost: $0.02",
                {"input_tokens": 5244, "output_tokens": 604},
            ),
            ("Tokens: 5.2k sent, 604 received.", {"output_tokens": 604}),
            ("Tokens: 12k sent, 1.1k received.", None),
            ("Tokens: 900 sent, 800 cache hit, 7 received.", {"output_tokens": 7}),
            ("Token count: 5", None),
        ],
    )
    def test_only_exact_counts_are_used(self, line: str, usage: Any) -> None:
        _, events = read_text(f"{START}\n#### q  \n\nanswer\n\n> {line}  \n")
        expected = tokens(**usage) if usage else None
        assert [event.get("usage") for event in events if event.get("role") == "assistant"] == [
            expected
        ]

    @pytest.mark.parametrize(
        ("line", "model"),
        [
            ("Models: gpt-4o with diff edit format, weak model gpt-4o-mini", "gpt-4o"),
            ("Model: gpt-4o with whole edit format", "gpt-4o"),
            (
                "Main model: anthropic/claude-3-opus with diff edit format",
                "anthropic/claude-3-opus",
            ),
            ("Modeling: x", None),
        ],
    )
    def test_the_model_is_read_from_notices(self, line: str, model: str | None) -> None:
        draft, _ = read_text(f"{START}\n> {line}  \n\n#### q  \n\nanswer\n\n")
        assert [who.get("model") for who in draft.participants if who["kind"] == "model"] == [model]

    def test_linter_output_is_internal(self) -> None:
        _, events = read_text(f"{START}\n#### # Fix any errors below, if possible.  \n#### x  \n")
        assert events[1]["visibility"] == "internal"

    def test_edits_are_not_tool_calls(self) -> None:
        _, events = read_text(
            f"{START}\n#### q  \n\na.py\n<<<<<<< SEARCH\n=======\n>>>>>>> REPLACE\n\n> Applied edit to a.py  \n"
        )
        assert [event["type"] for event in events] == [
            "annotation",
            "message",
            "message",
            "annotation",
        ]


@pytest.mark.parametrize(
    "text",
    [
        "# aider chat started at noon\n",
        "x # aider chat started at 2026-02-01 08:15:00\n",
        '{"a": 1}\n' + START,
    ],
)
def test_files_that_are_not_histories(text: str) -> None:
    assert not READER.sniff(Source("x", data=text.encode()))


def test_the_shared_corpus_is_read_completely(corpus: Path) -> None:
    [path] = (corpus / "aider").glob("*.md")
    source = Source.of(path)
    assert detect_format(source) == "aider"
    found = READER.list_conversations(source)
    assert len(found) == len({item.id for item in found}) == 298
    carried: set[str] = set()
    for item in found:
        source.conversation = item.id
        draft = Draft()
        READER.read(source, draft)
        for event in draft.finish(lambda: "0" * 64).events:
            said: Any = event["content"]
            carried |= {
                line.strip()
                for line in said.get("text", said.get("data", {}).get("text", "")).split("\n")
            }
    for line in source.text.split("\n"):
        if not line.startswith("# aider chat"):
            bare = {line.strip(), line.removeprefix(">").strip(), line.removeprefix("####").strip()}
            assert bare & carried
