"""ShareGPT data, as training files hold it."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="sharegpt",
    title="ShareGPT",
    checked="conversations with tool calls, and the messages form with images, as LLaMA-Factory takes them",
    includes="messages, the system prompt, tool calls and observations paired by order, the names of tools, references to media, other columns as labels",
    omits="the descriptions of tools, and the bytes of media",
    holds_several=True,
    signatures=(b'"from"', b'"images"', b'"videos"', b'"audios"'),
)
