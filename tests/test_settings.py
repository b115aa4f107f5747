"""Settings by rank: user file, project file, environment; and the policy that only grows
stricter."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from open_token import settings as module
from open_token.context import Policy, RedactionOverrides
from open_token.errors import InputError, UsageError
from open_token.settings import Settings, add_allow_entries, load_settings, read_rules_file

Write = Callable[..., Settings]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes the files that are given, and loads the settings of a folder two levels below the
    project file."""
    monkeypatch.setattr(module, "SYSTEM_FILE", tmp_path / "system.toml")
    below = tmp_path / "project" / "src" / "deep"
    below.mkdir(parents=True)
    (tmp_path / "home" / "settings").mkdir(parents=True)

    def load(user: str = "", project: str = "", system: str = "", **env: str) -> Settings:
        (tmp_path / "home" / "settings" / "config.toml").write_text(user)
        (tmp_path / "project" / ".open-token.toml").write_text(project)
        (tmp_path / "system.toml").write_text(system)
        return load_settings({"OPEN_TOKEN_HOME": str(tmp_path / "home"), **env}, below)

    return load


def test_without_files_there_is_nothing(tmp_path: Path) -> None:
    loaded = load_settings({"OPEN_TOKEN_HOME": str(tmp_path)}, tmp_path)
    assert (loaded.defaults, loaded.policy, loaded.team_key) == ({}, Policy(), None)
    assert list(tmp_path.iterdir()) == []


def test_the_nearer_wins(write: Write) -> None:
    user = '[defaults]\nmode = "ndjson"\nredact = "pii"\nmax_bytes = 1000\n'
    project = '[defaults]\nredact = "strict"\nmax_bytes = 2000\n'
    assert write(user, project).defaults == {
        "mode": "ndjson",
        "redact": "strict",
        "max_bytes": 2000,
    }
    assert write(user, project, OPEN_TOKEN_MAX_BYTES="3000").defaults["max_bytes"] == "3000"
    assert write(user, project, OPEN_TOKEN_REDACT="secrets").defaults["redact"] == "secrets"
    assert write(user, project, OPEN_TOKEN_REDACT="").defaults["redact"] == "strict"


def test_the_nearest_project_file_counts(write: Write, tmp_path: Path) -> None:
    (tmp_path / "project" / "src" / ".open-token.toml").write_text(
        '[defaults]\nredact = "strict"\n'
    )
    assert write(project='[defaults]\nredact = "pii"\nmode = "ndjson"\n').defaults == {
        "redact": "strict"
    }


@pytest.mark.parametrize(
    ("user", "project", "redact"),
    [
        ("", "none", None),
        ("", "secrets", "secrets"),
        ("", "pii", "pii"),
        ("none", "secrets", "secrets"),
        ("pii", "secrets", "pii"),
        ("strict", "pii", "strict"),
        ("pii", "strict", "strict"),
    ],
)
def test_a_project_may_only_mask_more(
    write: Write, user: str, project: str, redact: str | None
) -> None:
    own = f'[defaults]\nredact = "{user}"\n' if user else ""
    assert write(own, f'[defaults]\nredact = "{project}"\n').defaults.get("redact") == redact


@pytest.mark.spec("internal-full-policy")
def test_a_project_may_not_ask_for_whole_thoughts(write: Write) -> None:
    project = '[defaults]\ninclude = "include-internal"\ninternal = "full"\n'
    assert write(project=project).defaults == {"include": "include-internal"}
    assert write(user=project).defaults["internal"] == "full"


@pytest.mark.parametrize(
    ("files", "where"),
    [
        ({"user": "= no toml"}, "config.toml:1:1"),
        ({"project": "a = 1\nb = \n"}, ".open-token.toml:2:5"),
        ({"system": "= no toml"}, "system.toml:1:1"),
        ({"user": '[defaults]\nredcat = "pii"\n'}, "config.toml"),
        ({"project": '[defaults]\nredact = "everything"\n'}, ".open-token.toml"),
        ({"user": "defaults = 5\n"}, "config.toml"),
        ({"user": "policy = true\n"}, "config.toml"),
        ({"system": '[policy]\nmin_redact = "all"\n'}, "system.toml"),
        ({"user": "[policy]\nmin_redact = []\n"}, "config.toml"),
        ({"user": "[policy]\nnever_export_private_keys = 'yes'\n"}, "config.toml"),
        ({"user": "[policy]\nnever_export_private_key = true\n"}, "config.toml"),
        ({"system": "[policy]\nforbid_internal_full = 1\n"}, "system.toml"),
        ({"user": 'team_key = "nowhere.key"\n'}, "nowhere.key"),
        ({"OPEN_TOKEN_MODE": "xml"}, "OPEN_TOKEN_MODE in the environment"),
    ],
)
def test_what_is_wrong_is_named(write: Write, files: dict[str, Any], where: str) -> None:
    with pytest.raises(UsageError) as caught:
        write(**files)
    assert str(caught.value.where).endswith(where)
    assert caught.value.help


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("hello world", ": expected '=' after a key in a key/value pair"),
        ('a = "b" c', ": expected newline or end of document after a statement"),
        ('a = "\\d"', ": unescaped '\\' in a string"),
        ("[s3cret-word]\n[s3cret-word]", ""),
        ("a = {s3cret = 1, s3cret = 2}", ""),
    ],
)
def test_what_is_no_toml_says_why_and_quotes_nothing(write: Write, text: str, what: str) -> None:
    with pytest.raises(UsageError) as caught:
        write(project=text)
    assert caught.value.what == f"invalid TOML in the settings file{what}"


def test_a_file_as_notepad_saves_it(write: Write) -> None:
    assert write(project='\ufeff[defaults]\nredact = "pii"\n').defaults == {"redact": "pii"}


def test_a_file_that_is_not_utf8_is_named(write: Write, tmp_path: Path) -> None:
    (tmp_path / "project" / "src" / ".open-token.toml").write_bytes(b'a = "\xff"\n')
    with pytest.raises(UsageError, match=r"\.open-token\.toml"):
        write()


def test_policy_takes_the_strictest_of_both_files(write: Write) -> None:
    user = '[policy]\nmin_redact = "secrets"\nforbid_internal_full = true\n'
    system = '[policy]\nmin_redact = "pii"\nnever_export_private_keys = true\nforbid_internal_full = false\n'
    strict = Policy(forbid_internal_full=True, never_export_private_keys=True, min_redact="pii")
    assert write(user, system=system).policy == strict
    assert write(system, system=user).policy == strict


def test_a_project_has_no_policy(write: Write) -> None:
    assert write(project='[policy]\nmin_redact = "strict"\n').policy == Policy()


def test_the_team_key_is_read_beside_the_settings(write: Write, tmp_path: Path) -> None:
    (tmp_path / "home" / "settings" / "team.key").write_bytes(b"0123456789abcdef")
    assert write('team_key = "team.key"\n').team_key == b"0123456789abcdef"
    (tmp_path / "elsewhere.key").write_bytes(b"other")
    assert write(f'team_key = "{tmp_path}/elsewhere.key"\n').team_key == b"other"


RULE = "[[rule]]\nid = 'acme-ticket'\npattern = 'ACME-[0-9]{6}'\n"
ALLOW = "[[allow]]\nrule = 'email'\n"


def test_rules_of_both_files_add_up(write: Write) -> None:
    loaded = write(RULE, RULE.replace("acme-ticket", "other"))
    assert [(rule.id, Path(rule.file).name) for rule in loaded.screen.rules] == [
        ("acme-ticket", "config.toml"),
        ("other", ".open-token.toml"),
    ]
    assert write().screen == RedactionOverrides()


def test_what_may_stay_is_for_the_user_to_say(write: Write, tmp_path: Path) -> None:
    loaded = write(ALLOW, ALLOW.replace("email", "*"))
    assert [entry.rule for entry in loaded.screen.allowed] == ["email"]
    assert loaded.warnings[0].startswith(
        f"the allow-list of {tmp_path}/project/.open-token.toml has no effect"
    )
    trusting = write(
        f"trust_projects = ['{tmp_path}/project']\n{ALLOW}", ALLOW.replace("email", "*")
    )
    assert [entry.rule for entry in trusting.screen.allowed] == ["email", "*"]
    assert trusting.warnings == ()
    with pytest.raises(UsageError, match="trust_projects must be a list"):
        write("trust_projects = 'x'\n", ALLOW)


def test_trust_is_for_one_folder_and_not_for_what_lies_in_it(write: Write, tmp_path: Path) -> None:
    (tmp_path / "project" / "src" / ".open-token.toml").write_text(ALLOW)
    assert write(f"trust_projects = ['{tmp_path}/project']\n").screen.allowed == ()


def test_values_that_are_false_for_good_are_added_one_by_one(write: Write, tmp_path: Path) -> None:
    folders = write().folders
    for letter in "ab":
        path = add_allow_entries(folders, [(f"hmac:{letter * 32}", "email, rule email")])
    assert path == tmp_path / "home" / "settings" / "allow.toml"
    assert [entry.value[:6] for entry in write().screen.allowed] == ["hmac:a", "hmac:b"]
    path.write_text("[[allow]]\nvalue = 3\n")
    with pytest.raises(UsageError, match="value is not a text"):
        write()


def test_a_path_may_begin_at_home(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert (
        write("[[allow]]\npath = '~/sessions/*'\n").screen.allowed[0].path == "/home/ada/sessions/*"
    )


def test_the_rules_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(RULE)
    assert [rule.id for rule in read_rules_file(tmp_path / "mine.toml", "mine.toml")] == [
        "acme-ticket"
    ]
    with pytest.raises(InputError, match="no such file"):
        read_rules_file(tmp_path / "none.toml", "none.toml")


def test_what_does_nothing_where_it_stands_is_said(write: Write) -> None:
    result = write(
        "[[rules]]\n[server]\nport = 1\n", project="[policy]\nmin_redact = 'pii'\n[[alow]]\n"
    ).warnings
    assert [remark.split(" in ")[0] for remark in result] == ["rules", "policy", "alow"]
    assert result[0].endswith("config.toml has no effect; did you mean rule?")
    assert result[1].endswith("has no effect: only your own settings may set it")


@pytest.mark.parametrize("name", ["home/settings/config.toml", "system.toml"])
def test_a_policy_that_cannot_be_read_is_never_passed_over(
    name: str, write: Write, tmp_path: Path
) -> None:
    write()
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    with pytest.raises(InputError, match="cannot read this file"):
        load_settings({"OPEN_TOKEN_HOME": str(tmp_path / "home")}, tmp_path)
