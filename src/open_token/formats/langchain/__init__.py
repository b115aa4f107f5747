"""LangChain messages as its serializers write them, chunks of a stream, and runs of LangSmith."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="langchain",
    title="LangChain messages and LangSmith runs",
    checked=(
        "messages and chunks of LangChain 1.4 in every shape, LangSmith payloads of the Python SDK "
        "0.1 to 0.14"
    ),
    includes=(
        "messages, reasoning, tool calls, results, usage; of runs: models, tools, retrievers, "
        "errors, each message once"
    ),
    omits="inner chains, parsers, prompts, embeddings, timings and settings of runs",
    holds_several=True,
    signatures=(
        b'"lc"',
        b'"human"',
        b'"ai"',
        b"MessageChunk",
        b'{"content"',
        b'"additional_',
        b'"run_',
        b'"inputs"',
    ),
    technical_fields=("dotted_order",),
)
