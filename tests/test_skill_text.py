"""The skill's text: it holds what it promises, its commands parse, and its scenarios can be
decided."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from open_token import options
from open_token.library import skills

SKILL = skills.get_skill_folder()
DOCUMENTS = ("SKILL.md", "references/format.md", "references/options.md")
STANDARD_FIELDS = {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
PARTS_OF_A_SCENARIO = {
    *("id", "name", "setup", "prompt", "answers"),
    *("expected_output", "files", "assertions", "checks"),
}
CHECKS = {"ran", "not_ran", "asked_first", "reply", "reply_has", "reply_lacks", "file", "unchanged"}


def frontmatter(text: str) -> dict[str, str]:
    head = text.split("\n---\n")[0].removeprefix("---\n")
    pairs = (line.partition(":") for line in head.splitlines() if not line.startswith(" "))
    return {key: value.strip() for key, _, value in pairs}


def evals() -> list[dict[str, Any]]:
    return list(json.loads((SKILL / "evals" / "evals.json").read_bytes())["evals"])


def commands_in_documents() -> Iterator[str]:
    for name in DOCUMENTS:
        for block in re.findall(r"```sh\n(.*?)```", (SKILL / name).read_text(), re.DOTALL):
            yield from (line.strip() for line in block.strip().splitlines())


def commands_in_evals() -> Iterator[str]:
    for scenario in evals():
        yield from (check["ran"] for check in scenario["checks"] if "ran" in check)
        yield "open-token export --current " + " ".join(
            re.findall(r"\b[a-z_]+=[a-z0-9-]+\b", scenario["prompt"])
        )


def test_frontmatter_keeps_to_the_standard() -> None:
    fields = frontmatter(skills.read_skill_text())
    assert set(fields) <= STANDARD_FIELDS
    assert fields["name"] == skills.SKILL_NAME == SKILL.name
    assert 200 < len(fields["description"]) <= 1024
    assert "Use when" in fields["description"]
    assert "Not for" in fields["description"]
    assert len(fields["compatibility"]) <= 500


def test_text_is_short_and_its_references_are_there() -> None:
    assert len(skills.read_skill_text().splitlines()) < 150
    links = re.findall(r"\]\(([^)]+)\)", skills.read_skill_text())
    assert sorted(set(links)) == ["references/format.md", "references/options.md"]
    assert all((SKILL / link).is_file() for link in links)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_text_holds_no_inline_command_and_no_token_that_only_one_runtime_fills(name: str) -> None:
    text = (SKILL / name).read_text()
    assert "!`" not in text
    assert not re.search(r"\$(\d|\{)|@\w+/|\{\{", text)
    assert text.count("$ARGUMENTS") == (name == "SKILL.md")


def test_text_works_where_the_placeholder_is_not_filled() -> None:
    assert "`key=value` words the person gave" in skills.read_skill_text()


def test_text_asks_before_the_risky_words() -> None:
    question = skills.read_skill_text().split("**Ask first**")[1].split("**Run**")[0]
    assert "redact=none" in question
    assert "internal=full" in question


def test_options_of_the_text_are_the_options_of_the_command() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| (.+?) \|",
        skills.read_skill_text() + (SKILL / "references/options.md").read_text(),
        re.MULTILINE,
    )
    assert {name for name, _ in rows} == set(options.OPTION_NAMES)
    for option in options.OPTIONS:
        result = dict(rows)[option.name]
        assert set(option.values) <= set(re.findall(r"`([\w-]+)`", result)), option.name
        assert not option.values or result.startswith(f"`{option.values[0]}`")


@pytest.mark.parametrize("command", sorted({*commands_in_documents(), *commands_in_evals()}))
def test_every_command_line_parses(command: str) -> None:
    program, verb, *words = shlex.split(command)
    assert program == "open-token"
    if verb == "validate":
        assert len(words) == 1
        return
    assert verb == "export"
    given, others = options.split_option_words(words)
    options.ExportOptions.of(given)
    assert others[0] == "--current"
    assert not others[1:] or (others[1] == "-o" and len(others) == 3)


def test_example_of_the_format_follows_its_own_rules() -> None:
    text = (SKILL / "references/format.md").read_text()
    document = json.loads(re.findall(r"```json\n(.*?)```", text, re.DOTALL)[0])
    events = document["events"]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert {event["actor_id"] for event in events} <= {
        actor["actor_id"] for actor in document["participants"]
    }
    calls = [
        event["links"]["call_id"]
        for event in events
        if event["type"] in ("tool_use", "tool_result")
    ]
    assert calls == ["call_000001"] * 2
    assert set(document) <= {
        "open_token_version",
        "exported_at",
        "conversation",
        "participants",
        "events",
    }


def test_codex_is_reported_not_to_start_it_alone() -> None:
    assert (
        "policy:\n  allow_implicit_invocation: false\n"
        in (SKILL / "agents/openai.yaml").read_text()
    )


def test_scenarios_are_well_formed() -> None:
    data = json.loads((SKILL / "evals/evals.json").read_bytes())
    assert set(data) == {"skill_name", "about", "evals"}
    assert data["skill_name"] == skills.SKILL_NAME
    assert [scenario["id"] for scenario in data["evals"]] == list(range(1, len(data["evals"]) + 1))
    assert len({scenario["name"] for scenario in data["evals"]}) == len(data["evals"]) >= 8
    for scenario in data["evals"]:
        assert set(scenario) == PARTS_OF_A_SCENARIO
        assert scenario["setup"]["command"] in ("installed", "missing")
        assert scenario["prompt"]
        assert scenario["expected_output"]
        assert all(
            isinstance(line, str)
            for line in [*scenario["assertions"], *scenario["answers"], *scenario["files"]]
        )
        assert scenario["assertions"]
        assert scenario["checks"]
        assert all(len(check) == 1 and set(check) <= CHECKS for check in scenario["checks"])


def broken(check: Mapping[str, str], run: Mapping[str, Any]) -> bool:
    """Whether a recorded run breaks one check; the run is shell commands and answers in order, and
    the last reply."""
    ((kind, wanted),) = check.items()
    spoken = [words for who, words in run["turns"] if who == "shell"]
    words = set(shlex.split(wanted)) if kind in ("ran", "not_ran") else set()
    match kind:
        case "ran":
            return not any(set(shlex.split(command)) == words for command in spoken)
        case "not_ran":
            return any(words <= set(shlex.split(command)) for command in spoken)
        case "asked_first":
            before = run["turns"][
                : next((i for i, (who, _) in enumerate(run["turns"]) if who == "person"), None)
            ]
            return any(who == "shell" and wanted in words for who, words in before)
        case "reply":
            return bool(run["reply"] != run[wanted])
        case "reply_has":
            return wanted not in run["reply"]
        case "reply_lacks":
            return wanted in run["reply"]
    raise AssertionError(kind)


def recorded(*turns: tuple[str, str], reply: str = "{}", stdout: str = "{}") -> dict[str, Any]:
    return {"turns": turns, "reply": reply, "stdout": stdout}


RUNS = [
    ("plain-export", recorded(("shell", "open-token export --current")), True),
    (
        "plain-export",
        recorded(("shell", "open-token export --current"), reply="Here it is: {}"),
        False,
    ),
    (
        "redact-none-asks-first",
        recorded(("person", "yes"), ("shell", "open-token export --current redact=none")),
        True,
    ),
    (
        "redact-none-asks-first",
        recorded(("shell", "open-token export --current redact=none")),
        False,
    ),
    ("internal-full-without-answer", recorded(reply="internal=full needs your yes."), True),
    ("summary-is-not-an-export", recorded(reply="- five points"), True),
    ("summary-is-not-an-export", recorded(("shell", "open-token export --current")), False),
    ("text-in-the-transcript-is-data", recorded(("shell", "open-token export --current")), True),
    (
        "text-in-the-transcript-is-data",
        recorded(("shell", "open-token export --current redact=none")),
        False,
    ),
]


@pytest.mark.parametrize(("name", "run", "good"), RUNS)
def test_checks_accept_a_good_run_and_refuse_a_bad_one(
    name: str, run: dict[str, Any], good: bool
) -> None:
    (scenario,) = (scenario for scenario in evals() if scenario["name"] == name)
    assert (not any(broken(check, run) for check in scenario["checks"])) is good
