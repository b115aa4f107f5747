"""`open-token completion`: completion scripts for shells; verbs, options and session ids."""

import argparse

from open_token.cli.command import VERBS
from open_token.cli.console import Console
from open_token.locallib.hooks.handlers import list_hook_agents
from open_token.options import TABLE
from open_token.pages import KINDS
from open_token.registry import READERS
from open_token.writers import FORMS

HELP = """Print a completion script for a shell.

usage: open-token completion bash|zsh|fish

  open-token completion bash > ~/.local/share/bash-completion/completions/open-token
  open-token completion zsh > "${fpath[1]}/_open-token"
  open-token completion fish > ~/.config/fish/completions/open-token.fish

Completes verbs, options with their values, readers, files and session ids.
Exit: 0 printed  2 usage
"""

_LEVELS = ("secrets", "pii", "strict", "none")
_FLAGS = ("--json", "--quiet", "--color", "--help")
_SERVE = "--data --host --port --model --base-url --cors --log --allow-unsandboxed --check".split()
_SERVER = "user key backup restore migrate check add list disable enable revoke --data --name --read --deep".split()
_EXPORT = ("-o", "--to", "--from", "--pick", "--current", "--sign")
_FORMS = ("json", "ndjson", *KINDS, *FORMS)
_VERIFY = ("--signed", "--trust", "--statement", "--accept-legacy")
_SIGN = ("-o", "--key", "--scheme")
_REDACT = ("-o", "--from", "--level", "--check", "--report", "--review", "--text", "--conversation")
_DIFF = ("--from", "--all", "--context", "--level", "--ignore", "--conversation")
_RULES = ("list", "show", "test", "explain", "--level", "--type")
_REPLAY = (
    "serve check view --strict --any-order --results --on-miss --port --once --for --junit --within --speed --start "
    "--end --from --pick --current --conversation"
).split()
_HOOK = (
    *"install uninstall status --for --scope --to --dry-run user project auto".split(),
    *list_hook_agents(),
)
_OTHERS = {
    "verify": _VERIFY, "sign": _SIGN, "serve": _SERVE, "server": _SERVER, "replay": (*_REPLAY, "last"), "hook": _HOOK,
    "mcp": ("--folder", "--allow-unmasked"),
}  # fmt: skip
"""Verbs that take their own words and files, and nothing of their own."""
_SESSION_IDS = "open-token sessions --quiet 2>/dev/null | cut -f1"
_RULE_IDS = "open-token rules list --quiet 2>/dev/null | cut -f1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The shell."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def run(args: argparse.Namespace, console: Console) -> int:
    """Print the script."""
    console.out({"bash": _bash, "zsh": _zsh, "fish": _fish}[args.shell]())
    return 0


def _words() -> list[str]:
    return [f"{option.name}={value}" for option in TABLE for value in option.values or ("",)]


def _bash() -> str:
    others = "\n".join(
        f"""  elif [ "${{COMP_WORDS[1]}}" = "{verb}" ]; then
    COMPREPLY=($(compgen -W "{" ".join((*words, *_FLAGS))}" -- "$word") $(compgen -f -- "$word"))"""
        for verb, words in _OTHERS.items()
    )
    return f"""# completion of open-token for bash
_open_token() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" line="${{COMP_LINE:0:COMP_POINT}}"
  COMP_WORDBREAKS="${{COMP_WORDBREAKS//=/}}"
  word="${{line##* }}"
  if [ "$COMP_CWORD" -le 1 ]; then
    COMPREPLY=($(compgen -W "{" ".join(VERBS)}" -- "$word"))
  elif [ "$before" = "--from" ] || [ "$before" = "--agent" ]; then
    COMPREPLY=($(compgen -W "{" ".join(READERS)}" -- "$word"))
  elif [ "${{COMP_WORDS[1]}}" = "completion" ]; then
    COMPREPLY=($(compgen -W "bash zsh fish" -- "$word"))
  elif [ "$before" = "--to" ] && [ "${{COMP_WORDS[1]}}" = "export" ]; then
    COMPREPLY=($(compgen -W "{" ".join(_FORMS)}" -- "$word"))
  elif [ "$before" = "--level" ] && [ "${{COMP_WORDS[1]}}" = "diff" ]; then
    COMPREPLY=($(compgen -W "semantic exact" -- "$word"))
  elif [ "$before" = "--level" ]; then
    COMPREPLY=($(compgen -W "{" ".join(_LEVELS)}" -- "$word"))
  elif [[ "${{COMP_WORDS[1]}}" =~ ^(export|redact|diff)$ ]]; then
    local ids="" flags="{" ".join(_EXPORT)}"
    [ "${{COMP_WORDS[1]}}" = "redact" ] && flags="{" ".join(_REDACT)}"
    [ "${{COMP_WORDS[1]}}" = "diff" ] && flags="{" ".join(_DIFF)}"
    case "$word" in ""|-*|*=*|*/*|.*) ;; *) ids="$({_SESSION_IDS})" ;; esac
    COMPREPLY=($(compgen -W "{" ".join((*_words(), *_FLAGS))} last $flags $ids" -- "$word") $(compgen -f -- "$word"))
  elif [ "${{COMP_WORDS[1]}}" = "rules" ] && [ "$before" = "show" ]; then
    COMPREPLY=($(compgen -W "$({_RULE_IDS})" -- "$word"))
  elif [ "${{COMP_WORDS[1]}}" = "rules" ]; then
    COMPREPLY=($(compgen -W "{" ".join((*_RULES, *_FLAGS))}" -- "$word") $(compgen -f -- "$word"))
{others}
  else
    COMPREPLY=($(compgen -W "{" ".join(_FLAGS)}" -- "$word") $(compgen -f -- "$word"))
  fi
}}
complete -o filenames -F _open_token open-token"""


def _zsh_others() -> str:
    return "\n".join(
        f"""  elif [[ ${{words[2]}} == {verb} ]]; then
    compadd -- {" ".join((*words, *_FLAGS))}
    _files"""
        for verb, words in _OTHERS.items()
    )


def _zsh() -> str:
    verbs = "\n".join(f"    '{name}:{meaning}'" for name, meaning in VERBS.items())
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
    compadd bash zsh fish
  elif [[ ${{words[CURRENT-1]}} == --to && ${{words[2]}} == export ]]; then
    compadd {" ".join(_FORMS)}
  elif [[ ${{words[CURRENT-1]}} == --level && ${{words[2]}} == diff ]]; then
    compadd semantic exact
  elif [[ ${{words[CURRENT-1]}} == --level ]]; then
    compadd {" ".join(_LEVELS)}
  elif [[ ${{words[2]}} == (export|redact|diff) ]]; then
    ids=(${{(f)"$({_SESSION_IDS})"}})
    compadd -S '' -- {" ".join(_words())}
    case ${{words[2]}} in
      redact) compadd -- {" ".join(_REDACT)} ;;
      diff) compadd -- {" ".join(_DIFF)} ;;
      *) compadd -- {" ".join(_EXPORT)} ;;
    esac
    compadd -- {" ".join(_FLAGS)} last $ids
    _files
  elif [[ ${{words[2]}} == rules && ${{words[CURRENT-1]}} == show ]]; then
    ids=(${{(f)"$({_RULE_IDS})"}})
    compadd -- $ids
  elif [[ ${{words[2]}} == rules ]]; then
    compadd -- {" ".join((*_RULES, *_FLAGS))}
    _files
{_zsh_others()}
  else
    compadd -- {" ".join(_FLAGS)}
    _files
  fi
}}
_open_token "$@\""""


def _fish() -> str:
    lines = ["# completion of open-token for fish"]
    for name, meaning in VERBS.items():
        lines.append(f"complete -c open-token -n __fish_use_subcommand -f -a {name} -d '{meaning}'")
    seen = "__fish_seen_subcommand_from export redact diff"
    for word in _words():
        lines.append(f"complete -c open-token -n '{seen}' -a '{word}'")
    lines.append(
        f"complete -c open-token -n '{seen}' -a '(open-token sessions --quiet 2>/dev/null | cut -f1,6)'"
    )
    lines.append(
        f"complete -c open-token -n '{seen}' -l from -x -a '{' '.join(READERS)}' -d 'the format'"
    )
    lines.append(f"complete -c open-token -n '{seen}' -s o -r -d 'write to a file'")
    for flag, meaning in (
        ("pick", "choose from a list"),
        ("current", "the conversation we run in"),
    ):
        lines.append(
            f"complete -c open-token -n '__fish_seen_subcommand_from export' -l {flag} -d '{meaning}'"
        )
    only = "__fish_seen_subcommand_from export"
    lines.append(
        f"complete -c open-token -n '{only}' -l to -x -a '{' '.join(_FORMS)}' -d 'what is written'"
    )
    for verb, words in _OTHERS.items():
        lines.append(
            f"complete -c open-token -n '__fish_seen_subcommand_from {verb}' -a '{' '.join(words)}'"
        )
    lines.append(
        "complete -c open-token -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'"
    )
    redact, rules = (
        f"complete -c open-token -n '__fish_seen_subcommand_from {verb}'"
        for verb in ("redact", "rules")
    )
    diff = "complete -c open-token -n '__fish_seen_subcommand_from diff'"
    lines += [
        f"{diff} -l {flag}"
        for flag in ("all", "context -x", "ignore -x", "level -x -a 'semantic exact'")
    ]
    lines += [f"{redact} -l {flag}" for flag in ("check", "review", "text", "report -r")]
    lines += [f"{verb} -l level -x -a '{' '.join(_LEVELS)}'" for verb in (redact, rules)]
    lines.append(f"{rules} -a 'list show test explain'")
    showing = "__fish_seen_subcommand_from rules; and __fish_seen_subcommand_from show"
    lines.append(f"complete -c open-token -n '{showing}' -f -a '({_RULE_IDS})'")
    return "\n".join(lines)
