"""Values of the editor: markdown, addresses, images, rendered prompts and outputs of tools."""

import base64
from collections.abc import Callable
from typing import Any

from open_token.formats.shared.fields import JsonObject, get_dict, get_text
from open_token.jsontools.media import build_media_block

_MAX_IMAGE_BYTES = 64 << 20


def get_markdown(value: Any) -> str:
    """Return a text, or the text of a markdown value."""
    if isinstance(value, str):
        return value
    return get_text(value, "value") or get_text(get_dict(value, "content"), "value") or ""


def get_path(value: Any) -> str | None:
    """Return the path of a file or of a place in it; another address is returned whole."""
    if not isinstance(value, dict):
        return None
    for holder in (value, get_dict(value, "uri"), get_dict(get_dict(value, "location"), "uri")):
        address = get_text(holder, "external")
        if address and holder.get("scheme") not in (None, "file"):
            return address
        path = get_text(holder, "fsPath") or get_text(holder, "path") or address
        if path:
            return path
    return None


def build_image_block(variable: JsonObject) -> JsonObject | None:
    """Return an attached image; its bytes are stored in base64, in a list or by their positions."""
    if variable.get("kind") != "image":
        return None
    data = _encode_bytes(variable.get("value"))
    if data is None:
        return None
    return build_media_block(get_text(variable, "mimeType"), data, "image")


def _encode_bytes(value: Any) -> str | None:
    if isinstance(value, dict):
        encoded = get_text(value, "$base64") or get_text(value, "data")
        if encoded:
            return encoded
        value = list(value.values())
    if not isinstance(value, list) or not 0 < len(value) <= _MAX_IMAGE_BYTES:
        return None
    try:
        return base64.b64encode(bytes(value)).decode()
    except (TypeError, ValueError):
        return None


def join_rendered(parts: Any, note: Callable[[str], None]) -> str:
    """Return the texts of a prompt as it was sent; `note` is told what is left out."""
    if isinstance(parts, str):
        return parts
    texts = []
    for part in parts if isinstance(parts, list) else []:
        text = get_text(part, "text")
        if text:
            texts.append(text)
        elif not isinstance(part, dict) or not {"text", "cacheType"} & part.keys():
            note("a part of the prompt as sent that is not text")
    return "\n".join(texts)


def parse_tool_result(result: JsonObject, note: Callable[[str], None]) -> Any:
    """Return the output of a tool as the model was given it; `note` is told what is left out."""
    blocks: list[Any] = []
    content = result.get("content")
    for part in content if isinstance(content, list) else []:
        if not isinstance(part, dict):
            blocks.append(part)
            continue
        value = part.get("value")
        mime = get_text(part, "mimeType")
        if isinstance(value, str):
            blocks.append({"type": "text", "text": value})
        elif isinstance(value, dict) and "node" in value:
            blocks.append({"type": "text", "text": _join_tree(value["node"], note)})
        elif mime and (data := _encode_bytes(get_dict(part, "data") or part.get("data"))):
            blocks.append(build_media_block(mime, data, "image"))
        else:
            blocks.append({key: item for key, item in part.items() if key != "$mid"})
    return _unwrap(blocks)


def _join_tree(root: Any, note: Callable[[str], None]) -> str:
    """Return the texts of a tree of prompt elements, in order."""
    texts: list[str] = []
    pending = [root]
    while pending:
        node = pending.pop()
        if not isinstance(node, dict) or not {"text", "children"} & node.keys():
            note("an element of a prompt that is not text")
            continue
        text = node.get("text")
        if isinstance(text, str):
            if node.get("lineBreakBefore") and texts:
                texts.append("\n")
            texts.append(text)
        children = node.get("children")
        if isinstance(children, list):
            pending.extend(reversed(children))
    return "".join(texts)


def parse_shown_result(invocation: JsonObject) -> Any:
    """Return the output of a tool as the person was shown it; None if there is none."""
    specific = get_dict(invocation, "toolSpecificData")
    terminal = get_text(get_dict(specific, "terminalCommandOutput"), "text")
    if terminal or get_text(specific, "result"):
        return terminal or specific["result"]
    details = invocation.get("resultDetails")
    output = details.get("output") if isinstance(details, dict) else details
    if isinstance(output, str):
        return output
    if not isinstance(output, list):
        return None
    blocks: list[Any] = []
    for item in output:
        text = get_text(item, "value")
        if text and item.get("isText") is not False:
            blocks.append({"type": "text", "text": text})
        elif text:
            blocks.append(build_media_block(get_text(item, "mimeType"), text, "image"))
        else:
            path = get_path(item)
            blocks.append({"type": "file", "path": path} if path else item)
    return _unwrap(blocks) if blocks else None


def _unwrap(blocks: list[Any]) -> Any:
    if len(blocks) == 1 and isinstance(blocks[0], dict) and blocks[0].keys() == {"type", "text"}:
        return blocks[0]["text"]
    return blocks
