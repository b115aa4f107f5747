"""Read a trajectory of SWE-agent or mini-swe-agent."""

from open_token.agents.swe_agent.detect import is_mini_trajectory
from open_token.agents.swe_agent.mini_trajectory import read_mini_trajectory
from open_token.agents.swe_agent.trajectory import read_trajectory
from open_token.builder.draft import Draft
from open_token.formats.shared.yaml_values import parse_yaml
from open_token.sources.source import Source


def read(source: Source, draft: Draft) -> None:
    """Read the conversation into the draft."""
    if source.shape == "text":
        parsed = parse_yaml(source.text, source.name)
        document = parsed[0] if parsed else {}
    else:
        document = source.document
    if not isinstance(document, dict):
        document = {}
    if is_mini_trajectory(document):
        read_mini_trajectory(document, draft)
    else:
        read_trajectory(document, draft)
