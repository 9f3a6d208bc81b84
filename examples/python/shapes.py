"""Checks whether a value fits the JSON Schema of docs/protocol, as a reader does: see "What fits" in fold.md."""
import json
import pathlib

SCHEMA = pathlib.Path(__file__).parents[2] / "docs/protocol/task-stream.schema.json"
DEFS = json.loads(SCHEMA.read_text("utf-8"))["$defs"]


class Misfit(Exception):
    """A value does not have the shape that the schema gives it."""


def utf16(text):
    """The key that sorts texts by UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_count(value):
    return is_number(value) and value == int(value) and 0 <= value < 2**53


def is_id(value):
    return isinstance(value, str) and 1 <= len(utf16(value)) // 2 <= 128 and value != "__proto__"


def nests(value, levels=200):
    if not isinstance(value, (dict, list)):
        return True
    inner = value.values() if isinstance(value, dict) else value
    return levels > 0 and all(nests(entry, levels - 1) for entry in inner)


def read(value, schema, legacy, name=""):
    """The value without nulls on optional fields; raises Misfit."""
    while "$ref" in schema:
        name = name or schema["$ref"].rsplit("/", 1)[1]
        schema = DEFS[schema["$ref"].rsplit("/", 1)[1]]
    options = [option for option in schema.get("anyOf", []) if option != {"type": "null"}]
    if len(options) == 1:
        return read(value, options[0], legacy, name)
    if options:
        return read_variant(value, options, legacy)
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        if "properties" not in schema:
            return check(value, isinstance(value, dict) and nests(value, 201))
        return read_object(value, schema, legacy)
    if kind == "array":
        check(value, isinstance(value, list))
        return [read(entry, schema["items"], legacy) for entry in value]
    if kind == "string":
        if name == "block_id" and legacy and is_number(value):
            return value
        check(value, isinstance(value, str))
        exact = [schema["const"]] if "const" in schema else schema.get("enum")
        if exact and name in ("type", "object"):
            check(value, ("image" if value == "image_url" else value) in exact)
        if "maxLength" in schema:
            check(value, is_id(value))
        return check(value, value != "" or "minLength" not in schema)
    if kind == "integer":
        return check(value, (is_count(value) and value >= schema["minimum"]) or value == schema["minimum"] == -1)
    if kind == "number":
        return check(value, is_number(value))
    if kind == "boolean":
        return check(value, isinstance(value, bool) and value == schema.get("const", value))
    return check(value, nests(value))


def check(value, fits):
    if not fits:
        raise Misfit
    return value


def read_variant(value, options, legacy):
    """An item or a block: the shape that its type names, or the one for unknown types."""
    check(value, isinstance(value, dict))
    known, other = options[0]["oneOf"], options[1]
    kind = "image" if value.get("type") == "image_url" else value.get("type")
    for option in known:
        shape = DEFS[option["$ref"].rsplit("/", 1)[1]] if "$ref" in option else option
        types = shape["properties"]["type"]
        if kind in [types.get("const"), *types.get("enum", [])] and kind is not None:
            return read_object(value, shape, legacy)
    shape = DEFS[other["$ref"].rsplit("/", 1)[1]]
    # A known type that is not an option here is refused: an item does not close as discarded.
    check(value, kind not in shape["properties"]["type"]["not"]["enum"])
    return read_object(value, shape, legacy)


def read_object(value, schema, legacy):
    check(value, isinstance(value, dict))
    if schema is DEFS["Annotation"] and value.get("type") != "reference_to_block":
        schema = {"properties": {"type": {"type": "string"}}, "required": ["type"]}
    required = schema.get("required", [])
    check(value, all(name in value for name in required))
    is_block = "reference_id" in schema["properties"] and "start_index" not in schema["properties"]
    result = {}
    for name, sent in value.items():
        inner = schema["properties"].get(name)
        if inner is None:
            result[name] = check(sent, nests(sent))
        elif sent is not None or name in required:
            result[name] = read(sent, inner, legacy, "block_id" if is_block and name == "id" else name)
    return result
