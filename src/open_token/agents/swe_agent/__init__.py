"""SWE-agent: trajectories and demonstrations, and the trajectories of mini-swe-agent."""

from open_token.formats.definition import Agent

AGENT = Agent(
    name="swe_agent",
    title="SWE-agent and mini-swe-agent",
    checked=(
        "SWE-agent 0.x and 1.x trajectories (text, XML, function calls), demonstrations; "
        "mini-swe-agent 1.x and 2.x"
    ),
    includes=(
        "prompts, demonstrations, responses, reasoning, commands, outputs with state and time, "
        "the outcome, tokens, costs"
    ),
    omits="the configuration of the run, the input of each model call",
    signatures=(b'"history"', b'"trajectory"', b'"trajectory_format"', b'"info"', b"history:"),
    places=(
        "$SWE_AGENT_TRAJECTORY_DIR/*/*/*.traj",
        "$SWE_AGENT_TRAJECTORY_DIR/*/*/*/*.traj",
        "./trajectories/*/*/*.traj",
        "./trajectories/*/*/*/*.traj",
        "$MSWEA_GLOBAL_CONFIG_DIR/last_mini_run.traj.json",
        ".config/mini-swe-agent/last_mini_run.traj.json",
        "Library/Application Support/mini-swe-agent/last_mini_run.traj.json",
        "AppData/Local/mini-swe-agent/mini-swe-agent/last_mini_run.traj.json",
    ),
    technical_fields=("replay_config",),
)
