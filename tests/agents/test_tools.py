"""The vocabulary of tool names and arguments."""

import pytest

from open_token.agents.tools import (
    ACTION_NAMES,
    ARGUMENTS,
    EDITOR_COMMANDS,
    EDITORS,
    find_action,
    find_synonyms,
    find_text,
    guess_action,
    is_editor,
    normalize_name,
)


def test_each_name_has_one_action() -> None:
    names = [name for group in ACTION_NAMES.values() for name in group.split()]
    assert len(names) == len(set(names))
    assert not set(names) & EDITORS


def test_names_are_stored_in_normalized_form() -> None:
    for names in (*ACTION_NAMES.values(), " ".join(EDITORS)):
        for name in names.split():
            assert normalize_name(name) == name


def test_actions_of_arguments_and_editors_exist() -> None:
    assert ARGUMENTS.keys() <= ACTION_NAMES.keys()
    assert set(EDITOR_COMMANDS.values()) <= ACTION_NAMES.keys()


@pytest.mark.parametrize(
    ("tool", "action"),
    [
        ("Bash", "run"),
        ("run_shell_command", "run"),
        ("container.exec", "run"),
        ("developer__shell", "run"),
        ("functions.exec_command", "run"),
        ("write_stdin", "shell_input"),
        ("ReadFile", "read"),
        ("read_file_v2", "read"),
        ("MultiEdit", "multi_edit"),
        ("apply_patch", "patch"),
        ("StrReplaceFile", "edit"),
        ("write_to_file", "write"),
        ("grep_search", "search"),
        ("Glob", "find"),
        ("list_dir", "list"),
        ("WebFetch", "fetch"),
        ("google_web_search", "web_search"),
        ("spawn_agent", "delegate"),
        ("TodoWrite", "plan"),
        ("AskUserQuestion", "ask"),
    ],
)
def test_known_tools(tool: str, action: str) -> None:
    assert find_action(tool) == action
    assert guess_action(tool) == action


@pytest.mark.parametrize(
    "tool", ["mcp__github__search_files", "open", "exec", "execute", "report", ""]
)
def test_uncertain_names_have_no_action(tool: str) -> None:
    assert find_action(tool) is None


@pytest.mark.parametrize(
    ("tool", "action"),
    [
        ("mcp__files__read_file", "read"),
        ("server.write_file", "write"),
        ("open", "read"),
        ("execute", "run"),
        ("report", None),
        ("web.run", None),
    ],
)
def test_guesses(tool: str, action: str | None) -> None:
    assert guess_action(tool) == action


def test_a_tool_with_a_command_and_no_path_is_guessed_to_run_it() -> None:
    assert guess_action("sandbox", {"command": "ls"}) == "run"
    assert guess_action("sandbox", {"command": "ls", "path": "a"}) is None


def test_an_editor_does_what_its_command_says() -> None:
    assert is_editor("str_replace_based_edit_tool")
    assert find_action("text_editor", {"command": "view"}) == "read"
    assert find_action("text_editor", {"command": "create"}) == "write"
    assert find_action("text_editor", {"command": "str_replace"}) == "edit"
    assert find_action("text_editor", {"command": ["view"]}) is None
    assert find_action("text_editor") is None
    assert guess_action("text_editor") == "edit"


def test_find_text() -> None:
    assert find_text({"cmd": ["ls", "-l"], "command": ""}, ("command", "cmd")) == "ls -l"
    assert find_text({"cmd": ["ls", 1]}, ("cmd",)) == ""
    assert find_text("ls", ("cmd",)) == ""


def test_synonyms_depend_on_the_action() -> None:
    assert "cmd" in find_synonyms("run", "code")
    assert "file_text" in find_synonyms("write", "code")
    assert find_synonyms("write", "pattern") == ()
    assert find_synonyms("nothing", "path") == ()
