"""The OpenAI Realtime API: logs of the events of client and server, one a line."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="openai_realtime",
    title="OpenAI Realtime (events of client and server)",
    checked="from descriptions only: events of the beta and of the general release, one a line or in a list",
    includes="instructions, what was typed, transcripts of what was spoken, answers, calls and results, interruptions, errors, usage",
    omits="audio (its pieces are counted), session settings, rate limits, events of the audio buffer",
    signatures=(
        b"session.created",
        b"session.update",
        b"conversation.item.",
        b"input_audio_buffer.",
    ),
    technical_fields=("type", "audio", "delta", "tools", "event_id"),
    is_experimental=True,
)
