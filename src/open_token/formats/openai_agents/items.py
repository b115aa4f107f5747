"""Items of a run as the Responses API has them; the JavaScript SDK has its own names for some."""

from typing import Any

import msgspec

from open_token.formats.shared.fields import JsonObject, as_text, get_first

_API_TYPES = {
    "function_call_result": "function_call_output",
    "computer_call_result": "computer_call_output",
    "shell_call_result": "shell_call_output",
    "apply_patch_call_result": "apply_patch_call_output",
    "tool_search_call_result": "tool_search_output",
}
_API_NAMES = {
    "callId": "call_id",
    "encryptedContent": "encrypted_content",
    "serverLabel": "server_label",
}
_HOSTED_TOOLS = (
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "mcp_call",
)
_PLACEHOLDER_ID = "__fake_id__"
"""The id that the SDK gives every item of a model without ids."""
_COMPARED_BY_CONTENT = ("message", "reasoning")


def get_field(body: JsonObject, name: str) -> Any:
    """Return a field by its Python name, or as JavaScript spells it."""
    head, *rest = name.split("_")
    camel_case = head + "".join(part.capitalize() for part in rest)
    return get_first(body, name, camel_case)


def get_raw_item(item: JsonObject) -> Any:
    """Return the item of the API within an item of a run."""
    raw = get_field(item, "raw_item")
    return to_api_item(raw) if isinstance(raw, dict) else raw


def to_api_item(raw: JsonObject) -> JsonObject:
    """Return an item as the API has it."""
    item = {_API_NAMES.get(name, name): value for name, value in raw.items()}
    kind = item.get("type")
    if not isinstance(kind, str):
        return item
    kind = _API_TYPES.get(kind, kind)
    item["type"] = kind
    if kind == "hosted_tool_call":
        return _convert_hosted_call(item)
    if kind == "reasoning":
        return _convert_reasoning(item)
    if kind.endswith("_output"):
        item["output"] = _convert_output(item.get("output"))
    elif isinstance(item.get("content"), list):
        item["content"] = [_convert_block(block) for block in item["content"]]
    return item


def _convert_reasoning(item: JsonObject) -> JsonObject:
    """In JavaScript the summary is `content`, and the text, if there is any, is `rawContent`."""
    if "summary" in item or not isinstance(item.get("content"), list):
        return item
    converted = {**item, "summary": item["content"], "content": item.get("rawContent")}
    provider_data = item.get("providerData")
    if isinstance(provider_data, dict) and provider_data.get("encryptedContent"):
        converted["encrypted_content"] = provider_data["encryptedContent"]
    return converted


def _convert_output(value: Any) -> Any:
    """Unwrap a text; JavaScript wraps every output in a block."""
    if isinstance(value, dict) and "type" in value:
        if value["type"] == "text" and isinstance(value.get("text"), str):
            return value["text"]
        value = [value]
    if isinstance(value, list):
        return [_convert_block(block) for block in value]
    return value


def _convert_block(block: Any) -> Any:
    if not isinstance(block, dict) or block.get("type") not in ("input_image", "image"):
        return block
    image = get_first(block, "image", "imageUrl")
    if isinstance(image, str):
        url = image
    elif isinstance(image, dict):
        url = get_first(image, "url", "data")
        if isinstance(url, str) and not url.startswith(("data:", "http:", "https:")):
            url = f"data:{as_text(image.get('mediaType')) or 'image/png'};base64,{url}"
    else:
        return block
    converted = {"type": "input_image", "image_url": url}
    if block.get("detail"):
        converted["detail"] = block["detail"]
    return converted


def _convert_hosted_call(item: JsonObject) -> JsonObject:
    """Return the call of a tool of the provider; JavaScript stores the API's fields separately."""
    provider_data = item.get("providerData")
    if not isinstance(provider_data, dict):
        provider_data = {}
    name = as_text(provider_data.get("type")) or as_text(item.get("name")) or "hosted_tool_call"
    if name in _HOSTED_TOOLS:
        converted = dict(provider_data)
        for key, value in item.items():
            if key not in ("type", "providerData"):
                converted[key] = value
        converted["type"] = name
        return converted
    rest = {key: value for key, value in item.items() if key not in ("type", "name")}
    return {"type": f"{name.removesuffix('_call')}_call", **rest}


def identify_item(item: Any) -> bytes:
    """Return the identity of an item of a run, the same in each list of the state."""
    if not isinstance(item, dict):
        return identify_raw_item(None)
    identity = identify_raw_item(get_raw_item(item))
    # An approval holds the same call as the item of the call.
    if item.get("type") == "tool_approval_item":
        return b"approval " + identity
    return identity


def get_item_id(raw: JsonObject) -> str | None:
    """Return the type and the id that the provider gave an item; None if it gave none."""
    native_id = as_text(raw.get("id")) or as_text(raw.get("call_id"))
    if native_id is None or native_id == _PLACEHOLDER_ID:
        return None
    return f"{raw.get('type')} {native_id}"


def identify_raw_item(raw: Any) -> bytes:
    """Return the identity of an item of the API: the id of a call or an output, else its content."""
    if isinstance(raw, dict) and raw.get("type") not in _COMPARED_BY_CONTENT:
        native_id = as_text(raw.get("call_id")) or as_text(raw.get("id"))
        if native_id:
            return f"{raw.get('type')} {native_id}".encode("utf-8", "replace")
    return _encode(raw)


def identify_content(raw: JsonObject) -> bytes:
    """Return the identity of what a message says, whatever its status; a call has its id."""
    if raw.get("type") not in _COMPARED_BY_CONTENT:
        return identify_raw_item(raw)
    said = {name: value for name, value in raw.items() if name != "status" and value is not None}
    return _encode(said)


def _encode(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value, order="sorted")
    except (RecursionError, UnicodeEncodeError, TypeError):
        return repr(value).encode("utf-8", "replace")
