"""`open-token completion`: what a shell needs: completion scripts and the manual page."""

import argparse
from collections.abc import Callable

from open_token import __version__
from open_token.cli.dispatch import HELP as MAIN_HELP
from open_token.cli.dispatch import VERBS, build_parser, load_verb
from open_token.cli.export import OUTPUT_FORMATS
from open_token.cli.shared.console import Console
from open_token.cli.shared.help import Help
from open_token.library.hooks.handlers import list_hook_agents
from open_token.options import OPTIONS
from open_token.registry import READERS

HELP = Help(
    summary="Print a completion script for a shell, or the manual page.",
    usage=("completion bash|zsh|fish|powershell|man",),
    notes=("Completes commands, options and their values, readers, files and session ids.",),
    exit_codes=(("0", "Printed"), ("2", "Invalid usage")),
    examples=(
        (
            "open-token completion bash > ~/.local/share/bash-completion/completions/open-token",
            "",
        ),
        ('open-token completion zsh > "${fpath[1]}/_open-token"', ""),
        ("open-token completion fish > ~/.config/fish/completions/open-token.fish", ""),
        ("open-token completion powershell >> $PROFILE", ""),
        ("open-token completion man > ~/.local/share/man/man1/open-token.1", ""),
    ),
)
_LEVELS = ("secrets", "pii", "strict", "none")
_GLOBAL_FLAGS = ("--json", "--quiet", "--color", "--help")
_EXPORT_FLAGS = ("-o", "--to", "--from", "--pick", "--current", "--sign")
_REDACT_FLAGS = (
    "-o",
    "--from",
    "--level",
    "--check",
    "--report",
    "--review",
    "--text",
    "--conversation",
)
_DIFF_FLAGS = ("--from", "--all", "--context", "--level", "--ignore", "--conversation")
_RULES_WORDS = ("list", "show", "test", "explain", "--level", "--type")
_VERB_WORDS: dict[str, tuple[str, ...]] = {
    "verify": ("--signed", "--trust", "--statement"),
    "sign": ("-o", "--key", "--scheme"),
    "serve": (
        "--data",
        "--host",
        "--port",
        "--model",
        "--base-url",
        "--cors",
        "--log",
        "--allow-unsandboxed",
        "--check",
    ),
    "server": (
        *("user", "key", "backup", "restore", "migrate", "check"),
        *("add", "list", "disable", "enable", "revoke"),
        *("--data", "--name", "--read", "--deep"),
    ),
    "replay": (
        *("serve", "check", "view"),
        *("--strict", "--any-order", "--results", "--on-miss", "--port", "--once", "--for"),
        *("--junit", "--within", "--speed", "--start", "--end"),
        *("--from", "--pick", "--current", "--conversation", "last"),
    ),
    "hook": (
        *("install", "uninstall", "status"),
        *("--for", "--scope", "--to", "--dry-run", "user", "project", "auto"),
        *list_hook_agents(),
    ),
    "search": (
        *("--not", "--regex", "--agent", "--here", "--project", "--since", "--until", "--role"),
        *("--tool", "--path", "--limit", "--all", "--no-update"),
        *("person", "agent", "command", "output", "thinking", "system"),
    ),
    "blame": ("--no-update",),
    "show": ("--at", "--full", "--from", "--pick", "--current", "--conversation", "last"),
    "stats": (
        *("--by", "--blocks", "--agent", "--here", "--project", "--since", "--until", "--csv"),
        *("--no-update", "day", "week", "month", "project", "model", "tool", "session", "branch"),
    ),
    "index": ("--status", "--rebuild", "--remove"),
    "mcp": ("--folder", "--allow-unmasked"),
}
"""Words of commands that need no special treatment."""
_SESSION_IDS = "open-token sessions --quiet 2>/dev/null | cut -f1"
_RULE_IDS = "open-token rules list --quiet 2>/dev/null | cut -f1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the shell."""
    parser.add_argument("shell", metavar="SHELL", choices=tuple(_RENDERERS), help=argparse.SUPPRESS)


def run(args: argparse.Namespace, console: Console) -> int:
    """Print the script."""
    console.print(_RENDERERS[args.shell]())
    return 0


def _list_option_words() -> list[str]:
    """Return every `key=value` word; `key=` for an option with free values."""
    words = []
    for option in OPTIONS:
        words += [f"{option.name}={value}" for value in option.values or ("",)]
    return words


def _render_bash() -> str:
    global_flags = " ".join(_GLOBAL_FLAGS)
    export_words = " ".join((*_list_option_words(), *_GLOBAL_FLAGS))
    other_verbs = "\n".join(
        f"""  elif [ "${{COMP_WORDS[1]}}" = "{verb}" ]; then
    COMPREPLY=($(compgen -W "{" ".join(words)} {global_flags}" -- "$word") $(compgen -f -- "$word"))"""
        for verb, words in _VERB_WORDS.items()
    )
    return f"""# completion of open-token for bash
_open_token() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}"
  local line="${{COMP_LINE:0:COMP_POINT}}"
  COMP_WORDBREAKS="${{COMP_WORDBREAKS//=/}}"
  word="${{line##* }}"
  if [ "$COMP_CWORD" -le 1 ]; then
    COMPREPLY=($(compgen -W "{" ".join(VERBS)}" -- "$word"))
  elif [ "$before" = "--from" ] || [ "$before" = "--agent" ]; then
    COMPREPLY=($(compgen -W "{" ".join(READERS)}" -- "$word"))
  elif [ "${{COMP_WORDS[1]}}" = "completion" ]; then
    COMPREPLY=($(compgen -W "{" ".join(_RENDERERS)}" -- "$word"))
  elif [ "$before" = "--to" ] && [ "${{COMP_WORDS[1]}}" = "export" ]; then
    COMPREPLY=($(compgen -W "{" ".join(OUTPUT_FORMATS)}" -- "$word"))
  elif [ "$before" = "--level" ] && [ "${{COMP_WORDS[1]}}" = "diff" ]; then
    COMPREPLY=($(compgen -W "semantic exact" -- "$word"))
  elif [ "$before" = "--level" ]; then
    COMPREPLY=($(compgen -W "{" ".join(_LEVELS)}" -- "$word"))
  elif [[ "${{COMP_WORDS[1]}}" =~ ^(export|redact|diff)$ ]]; then
    local ids="" flags="{" ".join(_EXPORT_FLAGS)}"
    [ "${{COMP_WORDS[1]}}" = "redact" ] && flags="{" ".join(_REDACT_FLAGS)}"
    [ "${{COMP_WORDS[1]}}" = "diff" ] && flags="{" ".join(_DIFF_FLAGS)}"
    case "$word" in ""|-*|*=*|*/*|.*) ;; *) ids="$({_SESSION_IDS})" ;; esac
    COMPREPLY=($(compgen -W "{export_words} last $flags $ids" -- "$word") $(compgen -f -- "$word"))
  elif [ "${{COMP_WORDS[1]}}" = "rules" ] && [ "$before" = "show" ]; then
    COMPREPLY=($(compgen -W "$({_RULE_IDS})" -- "$word"))
  elif [ "${{COMP_WORDS[1]}}" = "rules" ]; then
    COMPREPLY=($(compgen -W "{" ".join(_RULES_WORDS)} {global_flags}" -- "$word") $(compgen -f -- "$word"))
{other_verbs}
  else
    COMPREPLY=($(compgen -W "{global_flags}" -- "$word") $(compgen -f -- "$word"))
  fi
}}
complete -o filenames -F _open_token open-token"""


def _render_zsh() -> str:
    global_flags = " ".join(_GLOBAL_FLAGS)
    verbs = "\n".join(
        "    '" + f"{name}:{summary}".replace("'", "'\\''") + "'" for name, summary in VERBS.items()
    )
    other_verbs = "\n".join(
        f"""  elif [[ ${{words[2]}} == {verb} ]]; then
    compadd -- {" ".join(words)} {global_flags}
    _files"""
        for verb, words in _VERB_WORDS.items()
    )
    return f"""#compdef open-token
# completion of open-token for zsh
_open_token() {{
  local -a verbs ids
  verbs=(
{verbs}
  )
  if (( CURRENT == 2 )); then
    _describe 'command' verbs
  elif [[ ${{words[CURRENT-1]}} == (--from|--agent) ]]; then
    compadd {" ".join(READERS)}
  elif [[ ${{words[2]}} == completion ]]; then
    compadd {" ".join(_RENDERERS)}
  elif [[ ${{words[CURRENT-1]}} == --to && ${{words[2]}} == export ]]; then
    compadd {" ".join(OUTPUT_FORMATS)}
  elif [[ ${{words[CURRENT-1]}} == --level && ${{words[2]}} == diff ]]; then
    compadd semantic exact
  elif [[ ${{words[CURRENT-1]}} == --level ]]; then
    compadd {" ".join(_LEVELS)}
  elif [[ ${{words[2]}} == (export|redact|diff) ]]; then
    ids=(${{(f)"$({_SESSION_IDS})"}})
    compadd -S '' -- {" ".join(_list_option_words())}
    case ${{words[2]}} in
      redact) compadd -- {" ".join(_REDACT_FLAGS)} ;;
      diff) compadd -- {" ".join(_DIFF_FLAGS)} ;;
      *) compadd -- {" ".join(_EXPORT_FLAGS)} ;;
    esac
    compadd -- {global_flags} last $ids
    _files
  elif [[ ${{words[2]}} == rules && ${{words[CURRENT-1]}} == show ]]; then
    ids=(${{(f)"$({_RULE_IDS})"}})
    compadd -- $ids
  elif [[ ${{words[2]}} == rules ]]; then
    compadd -- {" ".join(_RULES_WORDS)} {global_flags}
    _files
{other_verbs}
  else
    compadd -- {global_flags}
    _files
  fi
}}
_open_token "$@\""""


def _render_fish() -> str:
    lines = ["# completion of open-token for fish"]

    def complete(condition: str, arguments: str) -> None:
        lines.append(f"complete -c open-token -n {condition} {arguments}")

    def complete_verb(verbs: str, arguments: str) -> None:
        complete(f"'__fish_seen_subcommand_from {verbs}'", arguments)

    for name, summary in VERBS.items():
        described = summary.replace("'", "\\'")
        complete("__fish_use_subcommand", f"-f -a {name} -d '{described}'")
    readers = "export redact diff"
    for word in _list_option_words():
        complete_verb(readers, f"-a '{word}'")
    complete_verb(readers, "-a '(open-token sessions --quiet 2>/dev/null | cut -f1,6)'")
    complete_verb(readers, f"-l from -x -a '{' '.join(READERS)}' -d 'format of the source'")
    complete_verb(readers, "-s o -r -d 'write to a file'")
    complete_verb("export", "-l pick -d 'pick a session from a list'")
    complete_verb("export", "-l current -d 'the running session'")
    complete_verb("export", f"-l to -x -a '{' '.join(OUTPUT_FORMATS)}' -d 'output format'")
    for verb, words in _VERB_WORDS.items():
        complete_verb(verb, f"-a '{' '.join(words)}'")
    complete_verb("completion", f"-f -a '{' '.join(_RENDERERS)}'")
    for flag in ("all", "context -x", "ignore -x", "level -x -a 'semantic exact'"):
        complete_verb("diff", f"-l {flag}")
    for flag in ("check", "review", "text", "report -r"):
        complete_verb("redact", f"-l {flag}")
    for verb in ("redact", "rules"):
        complete_verb(verb, f"-l level -x -a '{' '.join(_LEVELS)}'")
    complete_verb("rules", "-a 'list show test explain'")
    complete_verb("rules; and __fish_seen_subcommand_from show", f"-f -a '({_RULE_IDS})'")
    return "\n".join(lines)


def _render_powershell() -> str:
    """Return a script for Windows PowerShell 5.1 and PowerShell 7."""
    export_words = [*_list_option_words(), *_EXPORT_FLAGS, "last"]
    words = {
        **_VERB_WORDS,
        "export": (*export_words, *OUTPUT_FORMATS),
        "redact": (*_list_option_words(), *_REDACT_FLAGS, *_LEVELS, "last"),
        "diff": (*_list_option_words(), *_DIFF_FLAGS, "semantic", "exact", "last"),
        "rules": (*_RULES_WORDS, *_LEVELS),
        "completion": tuple(_RENDERERS),
    }
    table = "\n".join(
        f"    {_quote_powershell(verb)} = @({', '.join(map(_quote_powershell, words.get(verb, ())))})"
        for verb in VERBS
    )
    global_flags = ", ".join(map(_quote_powershell, _GLOBAL_FLAGS))
    return f"""# completion of open-token for PowerShell
Register-ArgumentCompleter -Native -CommandName open-token -ScriptBlock {{
  param($word, $line, $position)
  $verbs = [ordered]@{{
{table}
  }}
  $given = @($line.CommandElements | ForEach-Object {{ $_.ToString() }})
  $before = if ($word) {{ $given.Count - 1 }} else {{ $given.Count }}
  if ($before -le 1) {{
    $candidates = @($verbs.Keys)
  }} elseif ($given[$before - 1] -in '--from', '--agent') {{
    $candidates = @({", ".join(map(_quote_powershell, READERS))})
  }} else {{
    $candidates = @($verbs[$given[1]]) + @({global_flags})
    if ($given[1] -in 'export', 'redact', 'diff', 'show' -and $word -notlike '-*') {{
      $candidates += @(open-token sessions --quiet 2>$null | ForEach-Object {{ ($_ -split "`t")[0] }})
    }}
  }}
  $candidates | Where-Object {{ $_ -like "$word*" }} | ForEach-Object {{
    [System.Management.Automation.CompletionResult]::new($_, $_, 'ParameterValue', $_)
  }}
}}"""


def _quote_powershell(word: str) -> str:
    return "'" + word.replace("'", "''") + "'"


def _render_man() -> str:
    """Return the manual page: the help texts of the program and of every command."""
    from open_token.cli.shared.help_text import collect_options
    from open_token.cli.shared.man_page import render_man_page

    commands = []
    for name in VERBS:
        verb = load_verb(name)
        commands.append((name, verb.HELP, list(collect_options(build_parser(name, verb)))))
    return render_man_page(__version__, MAIN_HELP, commands)


_RENDERERS: dict[str, Callable[[], str]] = {
    "bash": _render_bash,
    "zsh": _render_zsh,
    "fish": _render_fish,
    "powershell": _render_powershell,
    "man": _render_man,
}
