"""YAML for recordings: values as PyYAML gives them, without its objects, and no text that takes the
machine down."""

import sys
from typing import Any

import pytest
import yaml

from open_token.errors import InputError
from open_token.formats.shared.yaml_values import parse_yaml


def problem_of(text: str) -> InputError:
    with pytest.raises(InputError) as caught:
        parse_yaml(text, "tape.yaml")
    return caught.value


@pytest.mark.parametrize(
    "value",
    [
        {
            "a": [
                1,
                -2,
                0,
                1.5,
                None,
                True,
                False,
                "x",
                "",
                "1",
                "true",
                "null",
                "1.5",
                "~",
                "2024-01-01",
                "1e5",
                "0x10",
            ]
        },
        {
            "a": {
                "b": {
                    "c": [
                        "x\ny\n",
                        "  lead",
                        "tail  ",
                        "é\u2028",
                        "a: b",
                        "- c",
                        "# d",
                        "'e'",
                        '"f"',
                    ]
                }
            }
        },
        {"n": 2**62, "f": 1e-07, "empty": [{}, []]},
        ["one", {"two": "three"}],
        "alone",
    ],
)
def test_what_is_dumped_comes_back(value: Any) -> None:
    assert parse_yaml(yaml.safe_dump(value), "x") == [value]
    assert parse_yaml(yaml.safe_dump(value, default_flow_style=True, allow_unicode=True), "x") == [
        value
    ]


def test_words_that_are_no_values() -> None:
    words = ["yes", "off", "12:30:45", "2024-01-01", "1_000", "0o17", ".nan", "0123"]
    assert parse_yaml("".join(f"- {word}\n" for word in words), "x") == [words]
    assert parse_yaml("<<: {i: 1}\n? [j]\n: k\n7: l\n", "x") == [
        {"<<": {"i": 1}, "?": "k", "7": "l"}
    ]


def test_tags_make_no_objects() -> None:
    text = "a: !!python/object/apply:os.system ['true']\nb: !ruby/object:X {c: d}\ne: !!str 5\nf: !!binary aGk=\n"
    assert parse_yaml(text, "x") == [{"a": ["true"], "b": {"c": "d"}, "e": "5", "f": b"hi"}]


def test_several_documents() -> None:
    assert parse_yaml("--- 1\n--- {a: 2}\n", "x") == [1, {"a": 2}]


def test_aliases_share_what_they_name() -> None:
    (made,) = parse_yaml("a: &x [1, 2]\nb: *x\nc: &y z\nd: *y\n", "x")
    assert made == {"a": [1, 2], "b": [1, 2], "c": "z", "d": "z"}


@pytest.mark.parametrize(
    "text", ["[" * 60_000, "{a: " * 60_000, "- " * 60_000 + "x", "? " * 60_000]
)
def test_deep_nesting_is_refused_before_it_is_built(text: str) -> None:
    assert problem_of(text).code == "input.deep"


def test_a_bomb_of_aliases_is_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 40)]
    assert problem_of("\n".join(lines)).code == "input.yaml-large"


def test_a_long_text_by_alias_is_refused() -> None:
    assert (
        problem_of(f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 5000)}]").code
        == "input.yaml-large"
    )


@pytest.mark.parametrize(
    "text", ["a: &a [*a]", "a: *nobody", "a: [1", "a: \x01", "\t- x: [", "%YAML 9\n"]
)
def test_what_is_no_yaml(text: str) -> None:
    problem = problem_of(text)
    assert (problem.code, problem.exit_code) == ("input.yaml", 3)
    assert str(problem.where).startswith("tape.yaml")


def test_without_the_package_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    problem = problem_of("a: 1")
    assert problem.code == "input.extra"
    assert "pip install PyYAML" in str(problem.help)


def test_without_the_library_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(yaml, "CSafeLoader")
    assert parse_yaml("a: [1, b]", "x") == [{"a": [1, "b"]}]
