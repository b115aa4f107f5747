"""Items of an Agents SDK state in the shape of the Responses API, whichever SDK wrote them."""

from typing import Any

from open_token.readers._said import Body, first
from open_token.readers._wire_responses_content import word

_KINDS = {
    "function_call_result": "function_call_output",
    "computer_call_result": "computer_call_output",
    "shell_call_result": "shell_call_output",
    "apply_patch_call_result": "apply_patch_call_output",
    "tool_search_call_result": "tool_search_output",
}
_NAMES = {
    "callId": "call_id",
    "encryptedContent": "encrypted_content",
    "serverLabel": "server_label",
}
_HOSTED = (
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "mcp_call",
)


def field_of(body: Body, name: str) -> Any:
    """A field by its Python name, or as JavaScript spells it."""
    head, *rest = name.split("_")
    return first(body, name, head + "".join(part.capitalize() for part in rest))


def raw_item(item: Body) -> Any:
    """The item of the API inside an item of a run."""
    raw = field_of(item, "raw_item")
    return as_api(raw) if isinstance(raw, dict) else raw


def as_api(raw: Body) -> Body:
    """An item as the API has it; JavaScript has its own words for some."""
    made = {_NAMES.get(name, name): value for name, value in raw.items()}
    kind = made.get("type")
    if not isinstance(kind, str):
        return made
    made["type"] = kind = _KINDS.get(kind, kind)
    if kind == "hosted_tool_call":
        return _hosted(made)
    if kind == "reasoning":
        return _reasoning(made)
    if kind.endswith("_output"):
        made["output"] = _output(made.get("output"))
    elif isinstance(made.get("content"), list):
        made["content"] = [_block(block) for block in made["content"]]
    return made


def _reasoning(item: Body) -> Body:
    """JavaScript has the summary as `content`, and the words, where it has them, as
    `rawContent`."""
    if "summary" in item or not isinstance(item.get("content"), list):
        return item
    sealed = item.get("providerData")
    if isinstance(sealed, dict) and sealed.get("encryptedContent"):
        item = {**item, "encrypted_content": sealed["encryptedContent"]}
    return {**item, "summary": item["content"], "content": item.get("rawContent")}


def _output(value: Any) -> Any:
    """A text without the block around it; JavaScript wraps every output in one."""
    if (
        isinstance(value, dict)
        and value.get("type") == "text"
        and isinstance(value.get("text"), str)
    ):
        return value["text"]
    if isinstance(value, dict) and "type" in value:
        value = [value]
    return [_block(block) for block in value] if isinstance(value, list) else value


def _block(block: Any) -> Any:
    if not isinstance(block, dict):
        return block
    image = first(block, "image", "imageUrl")
    if block.get("type") in ("input_image", "image") and isinstance(image, str | dict):
        address = image if isinstance(image, str) else first(image, "url", "data")
        if (
            isinstance(address, str)
            and not address.startswith(("data:", "http:", "https:"))
            and isinstance(image, dict)
        ):
            address = f"data:{word(image.get('mediaType')) or 'image/png'};base64,{address}"
        return {
            "type": "input_image",
            "image_url": address,
            **{k: block[k] for k in ("detail",) if block.get(k)},
        }
    return block


def _hosted(item: Body) -> Body:
    """A tool of the provider: JavaScript keeps what the API said of it beside."""
    beside = item.get("providerData")
    held = beside if isinstance(beside, dict) else {}
    name = word(held.get("type")) or word(item.get("name")) or "hosted_tool_call"
    if name in _HOSTED:
        return {
            **held,
            **{key: value for key, value in item.items() if key not in ("type", "providerData")},
            "type": name,
        }
    call = {
        "type": f"{name.removesuffix('_call')}_call",
        **{k: v for k, v in item.items() if k not in ("type", "name")},
    }
    return call
