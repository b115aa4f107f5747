"""Skill: load instructions on demand; the bundled skill exports the current session."""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta

from open_token.library.skills import SKILL_NAME as STREAM_OF_CONSCIOUSNESS
from open_token.server.agent.model_interface import ToolSpec
from open_token.server.agent.tools.arguments import (
    Arguments,
    build_parameters,
    parse_arguments,
    run_in_thread,
    truncate_middle,
)
from open_token.server.agent.tools.interface import Json, ToolContext, ToolError
from open_token.server.agent.tools.session_export import export_session
from open_token.server.core.skills import Skill as SkillFolder
from open_token.server.core.skills import split_front_matter

_MAX_LISTED = 12_000


class SkillArguments(Arguments, frozen=True, kw_only=True):
    """Which skill, with which arguments."""

    name: Annotated[str, Meta(description="The name of the skill.")]
    arguments: Annotated[
        str, Meta(max_length=4000, description="Words for it, such as options key=value.")
    ] = ""
    file: Annotated[
        str, Meta(description="A file of the skill to read instead of its instructions.")
    ] = ""
    confirmed: Annotated[
        bool,
        Meta(
            description="The person was asked and said yes; only for what the skill says needs one."
        ),
    ] = False


class Skill:
    """Loads a skill."""

    is_idempotent = False

    def __init__(self, skills: Mapping[str, SkillFolder]) -> None:
        self._skills = skills
        listed = "\n".join(f"- {skill.name}: {skill.description}" for skill in skills.values())
        self.spec = ToolSpec(
            name="Skill",
            description="Load the instructions of a skill when the task calls for it, and follow "
            f"them. {STREAM_OF_CONSCIOUSNESS} does its work at once: it exports this session into "
            f"the workspace. The skills are:\n{truncate_middle(listed, _MAX_LISTED)}",
            parameters=build_parameters(SkillArguments),
            display_name="Skill",
        )

    async def run(self, arguments: Json, context: ToolContext) -> Any:
        """Return the instructions and file names of a skill, or the result of the export."""
        parsed = parse_arguments(SkillArguments, arguments, {"skill": "name", "args": "arguments"})
        skill = self._skills.get(parsed.name.removeprefix("/"))
        if skill is None:
            names = ", ".join(self._skills)[:2000]
            raise ToolError(f"unknown skill; available skills: {names}")
        if parsed.file:
            return {
                "name": skill.name,
                "file": parsed.file,
                "content": await run_in_thread(skill.read, parsed.file),
            }
        if skill.name == STREAM_OF_CONSCIOUSNESS:
            return await export_session(context, parsed.arguments, parsed.confirmed)
        _, body = split_front_matter(await run_in_thread(skill.read))
        answer: Json = {
            "name": skill.name,
            "instructions": body.replace("$ARGUMENTS", parsed.arguments),
        }
        if skill.source == "session":
            answer["skill_dir"] = skill.folder
        return {**answer, "files": await run_in_thread(skill.paths)}
