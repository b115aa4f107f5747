"""The JSON Schema (2020-12) of an export and of one NDJSON record."""

from typing import Any

from open_token.model.document import (
    AVAILABILITIES,
    EVENT_TYPES,
    KINDS,
    MIMES,
    PROVIDERS,
    REDACTION_MODES,
    ROLES,
    SOURCE_RUNTIMES,
    STRATEGIES,
    VERSION,
    VISIBILITIES,
)

DIALECT = "https://json-schema.org/draft/2020-12/schema"
DOCUMENT_ID = "urn:open-token:schema:0.1:document"
RECORD_ID = "urn:open-token:schema:0.1:record"

Schema = dict[str, Any]

_HASH = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_COUNT = {"type": "integer", "minimum": 0, "maximum": 2**53 - 1}
_UTC = "^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]+)?([Zz]|[+-]00:00)$"
_ANY_ZONE = _UTC.replace("[+-]00:00", "[+-][0-9]{2}:[0-9]{2}")


def build_document_schema() -> Schema:
    """Return the schema of a whole export (mode=json).

    `open-token validate` checks what a schema cannot express: order, pairing, hashes.
    """
    return {
        "$schema": DIALECT,
        "$id": DOCUMENT_ID,
        "title": "Open-Token export",
        "description": "One conversation: who took part, what was said and done, in order.",
        "type": "object",
        "required": ["open_token_version", "conversation", "participants", "events"],
        "properties": {
            **_frame(),
            "events": _array("#/$defs/event", "The record itself, in causal order."),
        },
        "additionalProperties": False,
        "$defs": _definitions(),
    }


def build_record_schema() -> Schema:
    """Return the schema of one line of an NDJSON export: header, flat event, or footer."""
    return {
        "$schema": DIALECT,
        "$id": RECORD_ID,
        "title": "Open-Token record",
        "description": "One line of an NDJSON export.",
        "oneOf": [
            {"$ref": "#/$defs/header"},
            {"$ref": "#/$defs/event_line"},
            {"$ref": "#/$defs/footer"},
        ],
        "$defs": {
            **_definitions(),
            "header": _header(),
            "event_line": _event_line(),
            "footer": _footer(),
        },
    }


def _frame() -> Schema:
    return {
        "open_token_version": {"const": VERSION, "description": "The version of the format."},
        "exported_at": _text("When the export was made, RFC 3339 in UTC.", pattern=_UTC),
        "conversation": {"$ref": "#/$defs/conversation"},
        "participants": _array(
            "#/$defs/participant", "Everyone and everything that an event is attributed to."
        ),
        "integrity": {"$ref": "#/$defs/integrity"},
    }


def _header() -> Schema:
    frame = _frame()
    del frame["integrity"]
    return {
        "title": "Header",
        "description": "The first line.",
        "type": "object",
        "required": ["type", "open_token_version"],
        "properties": {"type": {"const": "header"}, **frame},
        "additionalProperties": False,
    }


def _footer() -> Schema:
    frame = _frame()
    late = {name: frame[name] for name in ("integrity", "participants")}
    return {
        "title": "Footer",
        "description": "The last line; a stream without it is not complete. "
        "Holds what is known only at the end.",
        "type": "object",
        "required": ["type"],
        "properties": {"type": {"const": "footer"}, **late, "conversation": {"type": "object"}},
        "additionalProperties": False,
    }


def _event_line() -> Schema:
    # A line has a type itself, so that of the event is called event_type.
    event = _event()
    kind = event["properties"].pop("type")
    event["required"] = [
        "type",
        "event_type",
        *(name for name in event["required"] if name != "type"),
    ]
    event["properties"] = {"type": {"const": "event"}, "event_type": kind, **event["properties"]}
    event["allOf"] = _by_type("event_type")
    event["title"] = "Event line"
    return event


def _definitions() -> Schema:
    return {
        "conversation": _conversation(),
        "redaction": _redaction(),
        "participant": _participant(),
        "event": _event(),
        "content": _content(),
        "links": _links(),
        "usage": _usage(),
        "integrity": _integrity(),
    }


def _conversation() -> Schema:
    return {
        "title": "Conversation",
        "description": "Metadata of the whole conversation. "
        "Unknown values of the lists are read with a warning.",
        "type": "object",
        "required": ["id"],
        "properties": {
            "id": _text("A stable identifier, that of the runtime if it has one.", minLength=1),
            "title": _text("What the conversation is about."),
            "started_at": _text("When it began, RFC 3339; never guessed.", pattern=_ANY_ZONE),
            "timezone": _text("The zone of the person."),
            "source_runtime": _open_list(
                SOURCE_RUNTIMES, "The kind of program in which it took place."
            ),
            "provider": _open_list(PROVIDERS, "Whose models took part."),
            "internal_availability": _open_list(
                AVAILABILITIES, "Whether the source had hidden reasoning."
            ),
            "redaction": {"$ref": "#/$defs/redaction"},
        },
    }


def _redaction() -> Schema:
    return {
        "title": "Redaction",
        "description": "What was masked, and how. Absent only when redact=none.",
        "type": "object",
        "required": ["mode"],
        "properties": {
            "mode": _choice(REDACTION_MODES, "What was masked."),
            "strategy": _choice(STRATEGIES, "How redaction markers are made."),
            "notes": {
                "type": "array",
                "items": {"type": "string"},
                "description": "What was done, without any value.",
            },
        },
        "if": {"properties": {"mode": {"const": "none"}}},
        "else": _require("strategy", "notes"),
    }


def _participant() -> Schema:
    return {
        "title": "Participant",
        "description": "A person, a model or subagent, a tool, or the source of system prompts.",
        "type": "object",
        "required": ["actor_id", "kind", "name"],
        "properties": {
            "actor_id": _text("How events name the participant.", pattern="^act_[0-9]{3,}$"),
            "kind": _choice(KINDS, "What it is."),
            "name": _text("A name for people.", minLength=1),
            "provider": _text("Whose model or tool it is."),
            "model": _text("Which model."),
            "instance_id": _text("Which of several instances."),
        },
    }


def _event() -> Schema:
    return {
        "title": "Event",
        "description": "One thing that was said or done.",
        "type": "object",
        "required": ["id", "seq", "type", "actor_id", "visibility"],
        "properties": {
            "id": _text("Never changes, also when seq does.", pattern="^evt_[0-9]{6,}$"),
            "seq": {
                **_COUNT,
                "minimum": 1,
                "description": "The position in the record, counted from 1.",
            },
            "ts": _text("When it happened, RFC 3339 in UTC; absent when unknown.", pattern=_UTC),
            "type": _choice(EVENT_TYPES, "What kind of event it is."),
            "actor_id": _text("Whose it is.", pattern="^act_[0-9]{3,}$"),
            "visibility": _choice(
                VISIBILITIES, "Seen by the person, internal, or a fact for machines."
            ),
            "role": _choice(ROLES, "In which role it was said."),
            "content": {"$ref": "#/$defs/content"},
            "links": {"$ref": "#/$defs/links"},
            "usage": {"$ref": "#/$defs/usage"},
        },
        "allOf": _by_type("type"),
    }


def _by_type(key: str) -> list[Schema]:
    """Return what messages, calls, results and spans require in addition."""
    call = {
        "role": {"const": "assistant"},
        "content": {
            "type": "object",
            "required": ["data"],
            "properties": {
                "data": {
                    "type": "object",
                    "required": ["tool_name", "arguments"],
                    "properties": {
                        "tool_name": _text("The tool that is called.", minLength=1),
                        "arguments": {
                            "anyOf": [{"type": "object"}, {"type": "array"}],
                            "description": "What it is called with.",
                        },
                    },
                }
            },
        },
        "links": _require("call_id"),
    }
    result = {
        "role": {"const": "tool"},
        "content": {"anyOf": [_require("text"), _require("data")]},
        "links": _require("call_id"),
    }
    message = {"role": {"not": {"const": "tool"}}}
    span = {"links": _require("span_id")}
    return [
        _when(key, ["message"], ["role", "content"], message),
        _when(key, ["tool_use"], ["role", "content", "links"], call),
        _when(key, ["tool_result"], ["role", "content", "links"], result),
        _when(key, ["span_start", "span_end"], ["links"], span),
    ]


def _when(key: str, types: list[str], required: list[str], properties: Schema) -> Schema:
    return {
        "if": {"properties": {key: {"enum": types}}, "required": [key]},
        "then": {
            "required": required,
            "properties": {**dict.fromkeys(required, True), **properties},
        },
    }


def _content() -> Schema:
    return {
        "title": "Content",
        "description": "What was said or done: text, or data.",
        "type": "object",
        "properties": {
            "mime": _choice(MIMES, "How to interpret it."),
            "text": _text(
                "Plain text; cut in the middle at … when data says that it is truncated."
            ),
            "data": {
                "description": "Any JSON value; next to a text only flags such as truncated and "
                "original_length."
            },
        },
        "if": {"minProperties": 1},
        "then": _require("mime"),
        "additionalProperties": False,
    }


def _links() -> Schema:
    return {
        "title": "Links",
        "description": "What the event belongs to. "
        "The call id of the runtime is in data.native_call_id.",
        "type": "object",
        "properties": {
            "parent_id": _text("The event that this one is about or comes from.", minLength=1),
            "replies_to": _text("The event that this one answers.", minLength=1),
            "call_id": _text("The call, the same for tool_use and tool_result.", minLength=1),
            "span_id": _text("The span, the same for all its events.", minLength=1),
        },
    }


def _usage() -> Schema:
    return {
        "title": "Usage",
        "description": "Tokens; 0 where the source does not count them.",
        "type": "object",
        "properties": {
            "input_tokens": {**_COUNT, "description": "All prompt tokens, cached ones too."},
            "output_tokens": {**_COUNT, "description": "All generated tokens, reasoning too."},
            "reasoning_tokens": {
                **_COUNT,
                "description": "The part of output_tokens that is known to be reasoning.",
            },
        },
        # Strict validators refuse a pattern that matches a property above.
        "patternProperties": {"^(?!(input|output|reasoning)_tokens$).*_tokens$": _COUNT},
    }


def _integrity() -> Schema:
    return {
        "title": "Integrity",
        "description": "Hashes over the RFC 8785 bytes of the export.",
        "type": "object",
        "required": ["hash_alg", "canonicalization", "events_hash"],
        "properties": {
            "hash_alg": _text("sha256."),
            "canonicalization": _text("json-c14n-like."),
            "c14n": _text("rfc8785: what json-c14n-like means here."),
            "profile": _text("The rules by which this object was made."),
            "events_hash": {**_HASH, "description": "Of the events array."},
            "document_hash": {
                **_HASH,
                "description": "Of the document with the events replaced by their hash.",
            },
            "event_count": {**_COUNT, "description": "How many events were hashed."},
            "tree": _tree(),
            "source": {
                "type": "object",
                "description": "A proof that the events come from a committed source.",
            },
            "coercions": {
                "type": "array",
                "items": _coercion(),
                "description": "Values that had to be changed.",
            },
            "signatures": {
                "type": "array",
                "items": _signature(),
                "description": "Signatures over a statement that is derived from the export.",
            },
        },
    }


def _tree() -> Schema:
    return {
        "type": "object",
        "description": "The RFC 9162 tree whose leaves are the events.",
        "required": ["alg", "size", "root"],
        "properties": {"alg": {"const": "rfc9162-sha256"}, "size": _COUNT, "root": _HASH},
    }


def _signature() -> Schema:
    return {
        "type": "object",
        "required": ["scheme", "keyid", "sig"],
        "properties": {
            "scheme": _text("sshsig or dsse-ed25519."),
            "keyid": _text("The fingerprint of the key, as ssh-keygen shows it."),
            "key": _text("The public key, where the signature does not hold it."),
            "sig": _text("The signature: armoured (sshsig) or in base64."),
        },
    }


def _coercion() -> Schema:
    return {
        "type": "object",
        "required": ["ptr", "was"],
        "properties": {"seq": _COUNT, "ptr": {"type": "string"}, "was": {"type": "string"}},
    }


def _require(*names: str) -> Schema:
    """Return a schema of objects with these properties, which strict validators want defined, too."""
    return {"type": "object", "required": list(names), "properties": dict.fromkeys(names, True)}


def _text(description: str, **more: Any) -> Schema:
    return {"type": "string", **more, "description": description}


def _choice(values: tuple[str, ...], description: str) -> Schema:
    return {"enum": list(values), "description": description}


def _open_list(values: tuple[str, ...], description: str) -> Schema:
    return {
        "type": "string",
        "examples": list(values),
        "description": f"{description} Known: {', '.join(values)}.",
    }


def _array(reference: str, description: str) -> Schema:
    return {"type": "array", "items": {"$ref": reference}, "description": description}
