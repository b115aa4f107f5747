"""`open-token acp`: let an editor use the sessions of this machine."""

import argparse

from open_token.cli.serve import check_packages, log_to_stderr
from open_token.cli.shared.console import Console
from open_token.cli.shared.help import Help
from open_token.cli.shared.signals import interrupt_on_signals
from open_token.errors import UsageError
from open_token.server.config_loader import load_config

HELP = Help(
    summary="Serve agents and sessions to an editor (Agent Client Protocol).",
    usage=("acp [OPTIONS]",),
    notes=(
        "An editor starts this command and talks to it over stdin and stdout; "
        "docs/how-to/editors.md has the settings of Zed, JetBrains and Neovim. The session "
        "server runs in the same process and needs no key. An editor can list, load and continue "
        "the sessions of the server and those of all agents on this machine.",
        "Every setting of the server applies, from config.toml or the environment.",
    ),
    exit_codes=(
        ("0", "The editor disconnected, or the command was stopped"),
        ("2", "Invalid usage"),
        ("3", "Cannot start"),
    ),
    examples=(("open-token acp", ""), ("open-token acp --model anthropic:claude-sonnet-4-6", "")),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the settings that an editor's configuration is likely to set."""
    group = parser.add_argument_group("Settings")
    group.add_argument(
        "--data",
        metavar="DIR",
        help="Data folder [default: `server` in the user's data folder]",
    )
    group.add_argument(
        "--model",
        metavar="MODEL",
        help="Default model, such as openai:NAME; without API keys: demo",
    )
    group.add_argument(
        "--base-url", metavar="URL", help="OpenAI-compatible service: Ollama, vLLM, llama.cpp"
    )
    group.add_argument(
        "--allow-unsandboxed",
        nargs="?",
        const="true",
        metavar="",
        help="Allow the Bash tool without bubblewrap",
    )


def run(args: argparse.Namespace, console: Console) -> int:
    """Serve until the editor disconnects."""
    config = load_config(vars(args), console.env)
    check_packages()
    if console.stdin.isatty():
        raise UsageError(
            "this command is started by an editor, not in a terminal",
            help="docs/how-to/editors.md has the settings of editors",
        )
    from open_token.server.acp.serving import serve

    with log_to_stderr(config.log), interrupt_on_signals():
        serve(config, console.env, console.stdin, console.stdout)
    return 0
