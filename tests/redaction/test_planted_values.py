"""Secrets of every kind, planted in every position and encoding of a session: none is written."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fuzzing.planting import FORMS, Plant, documents, drawn_case, is_left, is_seen, plants, survives
from fuzzing.seeds import KEY
from open_token.context import Context, Policy
from open_token.model.document import Record
from open_token.options import ExportOptions
from open_token.redaction.detector import has_distinct_prefix
from open_token.redaction.redactor import redact
from open_token.redaction.rule_catalogue import fill_placeholders
from open_token.redaction.ruleset import GLUED_TOKEN_START, load_rules

BARE = ("plain", "in a sentence", "in a code block", "coloured")
SHARE = 8
"""Each form and place is tried with each eighth kind of secret, beginning with another one every
time. All kinds in all forms are 28,000 values: those tests are marked `full`."""
PLACES: dict[str, Callable[[str], Any]] = {
    "text": lambda said: said,
    "an argument": lambda said: {"tool_name": "x", "arguments": {"deep": [{"er": said}]}},
    "a key": lambda said: {"tool_name": "x", "arguments": {said: 1}},
    "an output": lambda said: [{"type": "text", "text": said}],
    "a buffer": lambda said: {"type": "Buffer", "data": list(said.encode())},
    "an annotation": lambda said: {"kind": "note", "said": {"value": said}},
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rules")


def redacted(contents: list[Any], cache: Path, engine: str, level: str = "secrets") -> list[str]:
    events: list[Any] = [
        {
            "id": f"evt_{number:06d}",
            "seq": number,
            "type": "message",
            "actor_id": f"act_{number:03d}",
            "visibility": "public",
            "role": "user",
            "content": {"mime": "text/plain", "text": said}
            if isinstance(said, str)
            else {"mime": "application/json", "data": said},
        }
        for number, said in enumerate(contents, 1)
    ]
    context = Context(
        ExportOptions.of({"redact": level}), key=KEY, policy=Policy(), rule_cache=cache
    )
    record = Record(conversation={"id": "conv_1"}, participants=[], events=events)
    return [
        json.dumps(event["content"], ensure_ascii=False)
        for event in redact(record, context, engine).events
    ]


def leaks(made: list[Plant], said: list[str], form: str) -> list[str]:
    return [
        plant.rule for plant, text in zip(made, said, strict=True) if is_left(plant, form, text)
    ]


def list_leaks_in_form(
    form: str, cache: Path, engine: str = "hyperscan", share: int = 1
) -> list[str]:
    """Return the rules whose examples are left when they are written in a form."""
    # Few rules are for wrapped lines: all of them are tried.
    made = plants(form, share=1 if form.startswith("wrapped") else share)
    made = [plant for plant in made if is_seen(plant, form)]
    assert len(made) > 30
    said = redacted([FORMS[form](plant.text) for plant in made], cache, engine)
    return leaks(made, said, form)


@pytest.mark.parametrize("form", FORMS)
def test_secrets_are_masked_in_every_form(form: str, cache: Path) -> None:
    assert list_leaks_in_form(form, cache, share=SHARE) == []


def test_every_kind_of_secret_has_its_turn() -> None:
    tried = {plant.rule for form in FORMS for plant in plants(form, share=SHARE)}
    assert tried == {plant.rule for plant in plants("all")}


@pytest.mark.full
@pytest.mark.parametrize("form", FORMS)
def test_every_kind_in_every_form(form: str, cache: Path) -> None:
    assert list_leaks_in_form(form, cache) == []


@pytest.mark.parametrize("form", [form for form in FORMS if form.startswith("wrapped")])
def test_lines_of_a_text_that_has_a_name(form: str, cache: Path) -> None:
    made = [plant for plant in plants(form) if is_seen(plant, form)]
    said = redacted(
        [[{"type": "text", "text": FORMS[form](plant.text)}] for plant in made], cache, "hyperscan"
    )
    assert leaks(made, said, form) == []


AROUND = {
    "a string that ends before it": ("cut by a plus and a line", "`view`, or `undo_edit`.\n{}\n"),
    "a string that begins behind it": ("cut by quotes", '{}\n"what next?"'),
    "letters before base64": ("base64 in lines", '{{"ci{}\nty": "Oslo"}}'),
    "a word in letters of hexadecimal": (
        "hexadecimal by hexdump",
        "It added 24 hours before\n{}\n",
    ),
    "numbers before a dump": (
        "hexadecimal by xxd",
        "-rw-r--r-- 1 ab906659 1266 Sep 19 16:11 TODO.md\n{}\n",
    ),
    "a line behind UTF-16": ("UTF-16 read as something else", "{}\nName another one"),
}


@pytest.mark.parametrize("around", AROUND)
def test_what_stands_around_a_hidden_value_does_not_hide_it_further(
    around: str, cache: Path
) -> None:
    form, frame = AROUND[around]
    made = [plant for plant in plants(around, share=SHARE) if is_seen(plant, form)]
    assert len(made) > 30
    said = redacted(
        [[{"text": frame.format(FORMS[form](plant.text))}] for plant in made], cache, "hyperscan"
    )
    assert leaks(made, said, form) == []


@pytest.mark.parametrize("margin", ["> ", "│ ", "+", "12→", ""])
def test_a_line_that_goes_on_with_a_sign_like_those_of_margins(margin: str, cache: Path) -> None:
    first, *rest = [
        fill_placeholders(hole, "margin")[0]
        for hole in ("sk-proj-{alnum:40}", "-{alnum:60}T3BlbkFJ", "{alnum:60}")
    ]
    text = "\n".join(
        margin + line for line in (f"And so it said at last that this is it, {first}", *rest)
    )
    assert not any(part[-16:] in redacted([text], cache, "hyperscan")[0] for part in (first, *rest))


def test_a_line_that_does_not_reach_the_border_of_its_box_ends_there(cache: Path) -> None:
    lines = fill_placeholders("│ so it printed  nvapi-{alnum:38} │\n│ {alnum:26}", "box")[0]
    box = f"{lines}{' ' * 33}│\n"
    assert redacted([f"{box}You rhyme."], cache, "hyperscan")[0].endswith('│\\nYou rhyme."}')


def test_a_token_that_grep_coloured_in_a_word(cache: Path) -> None:
    result = {rule.id for rule in load_rules("secrets") if has_distinct_prefix(rule)} - {
        "cookie",
        "client-password",
    }
    made = [plant for plant in plants("grep") if plant.rule in result]
    assert len(made) > 200
    said = redacted(
        ["ci" + FORMS["coloured as by grep"](plant.text) for plant in made], cache, "hyperscan"
    )
    assert leaks(made, said, "plain") == []


@pytest.mark.parametrize("word", ["backup_", "TOKEN", "prod2"])
@pytest.mark.parametrize("form", ["plain", "base64", "cut by a plus", "percent of signs"])
def test_a_head_that_no_word_ends_with_is_seen_behind_one(
    word: str, form: str, cache: Path
) -> None:
    heads = {
        rule.id for rule in load_rules("secrets") if rule.pattern.startswith(GLUED_TOKEN_START)
    }
    made = [plant for plant in plants(word) if plant.rule in heads]
    assert len(made) > 20
    said = redacted([FORMS[form](word + plant.text) for plant in made], cache, "hyperscan")
    assert leaks(made, said, form) == []


@pytest.mark.parametrize("form", FORMS)
def test_personal_data_in_every_form(form: str, cache: Path) -> None:
    made = [plant for plant in plants(form, "pii") if is_seen(plant, form)]
    said = redacted([FORMS[form](plant.text) for plant in made], cache, "hyperscan", "pii")
    assert leaks(made, said, form) == []


def list_leaks_in_place(place: str, cache: Path, share: int = 1) -> list[str]:
    """Return the rules whose examples are left when they stand in a place of an event."""
    left = []
    for form in ("plain", "JSON once", "base64"):
        made = plants(f"{place} {form}", share=share)
        said = redacted(
            [PLACES[place](FORMS[form](plant.text)) for plant in made], cache, "hyperscan"
        )
        left += leaks(made, said, form)
    return left


@pytest.mark.parametrize("place", PLACES)
def test_secrets_are_masked_in_every_place(place: str, cache: Path) -> None:
    assert list_leaks_in_place(place, cache, share=SHARE) == []


@pytest.mark.full
@pytest.mark.parametrize("place", PLACES)
def test_every_kind_in_every_place(place: str, cache: Path) -> None:
    assert list_leaks_in_place(place, cache) == []


@pytest.mark.parametrize("end", ["ID", "Id", "Uuid", "_id", "-ids"])
def test_a_token_that_ends_like_the_name_of_an_id_is_masked_where_it_is_a_key(
    end: str, cache: Path
) -> None:
    room = 35 - len(end) if end.isalpha() else 35
    token = fill_placeholders(f"ghp_{{alnum:{room}}}7", "a key")[0]
    key = f"{token}{end}" if end.isalpha() else f"{token} {end}"
    (said,) = redacted(
        [{"arguments": {key: "b1946ac9", "nativeSessionId": "b1946ac9"}}], cache, "auto"
    )
    assert token not in said
    # Its value is still treated as an id.
    assert said.count("b1946ac9") == 2


FORMS_FOR_BOTH_ENGINES = (
    "plain",
    "JSON cut short",
    "percent",
    "base64",
    "hexadecimal by xxd",
    "cut by a plus",
    "wrapped",
)


def test_the_engine_without_a_database_masks_secrets_in_every_form(cache: Path) -> None:
    for form in FORMS_FOR_BOTH_ENGINES:
        assert list_leaks_in_form(form, cache, "keywords", share=SHARE) == [], form


@pytest.mark.full
@pytest.mark.parametrize("form", FORMS_FOR_BOTH_ENGINES)
def test_both_engines_leave_nothing(form: str, cache: Path) -> None:
    assert list_leaks_in_form(form, cache, "keywords") == []


def test_what_was_planted_in_conversations_is_not_written(cache: Path) -> None:
    """The fuzz target for a moment; it fails only if a value is looked for and would be
    found."""
    found, kinds = documents([]), plants("fuzz")
    cases = [case for seed in range(120) if (case := drawn_case(random.Random(seed), found, kinds))]
    assert len(cases) > 60
    assert [(case.plant.rule, case.form) for case in cases if survives(case, cache)] == []
    bare = [
        case._replace(words={**case.words, "redact": "none"}) for case in cases if case.form in BARE
    ]
    assert "left" in [survives(case, cache) for case in bare]
