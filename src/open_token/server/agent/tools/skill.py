"""Skill: instructions that are loaded when they are needed; the one we ship exports the session it
is called in."""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta

from open_token.locallib.skills import NAME as STREAM_OF_CONSCIOUSNESS
from open_token.server.agent.interface import ToolSpec
from open_token.server.agent.tools._arguments import Arguments, cut, in_thread, parameters, take
from open_token.server.agent.tools._export import export_here
from open_token.server.agent.tools.interface import Json, Place, ToolFault
from open_token.server.skills import Skill as SkillFolder
from open_token.server.skills import split_front

_MOST_LISTED = 12_000


class SkillArguments(Arguments, frozen=True, kw_only=True):
    """Which skill, with what words."""

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
            description="Load the instructions of a skill when the task calls for it, and follow them. "
            f"{STREAM_OF_CONSCIOUSNESS} does its work at once: it exports this session into the workspace. "
            f"The skills are:\n{cut(listed, _MOST_LISTED)}",
            parameters=parameters(SkillArguments),
            display_name="Skill",
        )

    async def run(self, arguments: Json, place: Place) -> Any:
        """The instructions and the names of the files that come along; or what was exported."""
        asked = take(SkillArguments, arguments, {"skill": "name", "args": "arguments"})
        skill = self._skills.get(asked.name.removeprefix("/"))
        if skill is None:
            raise ToolFault(f"there is no such skill; there are {', '.join(self._skills)[:2000]}")
        if asked.file:
            return {
                "name": skill.name,
                "file": asked.file,
                "content": await in_thread(skill.read, asked.file),
            }
        if skill.name == STREAM_OF_CONSCIOUSNESS:
            return await export_here(place, asked.arguments, asked.confirmed)
        _, body = split_front(await in_thread(skill.read))
        answer: Json = {
            "name": skill.name,
            "instructions": body.replace("$ARGUMENTS", asked.arguments),
        }
        if skill.source == "session":
            answer["skill_dir"] = skill.folder
        return {**answer, "files": await in_thread(skill.paths)}
