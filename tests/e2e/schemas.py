"""Schemas as people write them, for checks of structured output; every one can be enforced."""

TEXT, NUMBER, INTEGER, FLAG = {"type": "string", "maxLength": 30}, {"type": "number"}, {"type": "integer"}, {"type": "boolean"}


def record(required=None, **properties):
    """An object with these members and no others; all are required unless some are named."""
    return {"type": "object", "properties": properties, "required": list(properties) if required is None else required,
            "additionalProperties": False}


def items(of, low=0, high=4):
    return {"type": "array", "items": of, "minItems": low, "maxItems": high}


ADDRESS = record(street=TEXT, number={"type": "integer", "minimum": 1, "maximum": 9999}, post_code={"type": "string", "pattern": "^[0-9]{5}$"})
SCHEMAS = (
    {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name", "age"],
     "additionalProperties": False},
    {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}, "unit": {"enum": ["C", "F"]}},
     "required": ["city", "unit"]},
    {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 255}, "minItems": 3, "maxItems": 3},
    {"type": "object", "properties": {"when": {"type": "string", "format": "date"}, "id": {"type": "string", "format": "uuid"}},
     "required": ["when", "id"], "additionalProperties": False},
    {"$defs": {"node": {"type": "object", "properties": {"value": {"type": "number"}, "next": {"anyOf": [
        {"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["value", "next"], "additionalProperties": False}},
     "$ref": "#/$defs/node"},
    {"oneOf": [{"type": "object", "properties": {"kind": {"const": "circle"}, "radius": {"type": "number", "exclusiveMinimum": 0}},
                "required": ["kind", "radius"], "additionalProperties": False},
               {"type": "object", "properties": {"kind": {"const": "square"}, "side": {"type": "number", "exclusiveMinimum": 0}},
                "required": ["kind", "side"], "additionalProperties": False}]},
    {"type": "object", "patternProperties": {"^[a-z]{1,8}$": {"type": "boolean"}}, "additionalProperties": False, "maxProperties": 4},
    {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{4}$"},
    {"type": "object", "properties": {"tags": {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 12},
                                               "maxItems": 4}, "note": {"type": ["string", "null"], "maxLength": 40}},
     "required": ["tags", "note"]},
    {"type": "number", "multipleOf": 0.5, "minimum": -10, "maximum": 10},
    record(address=ADDRESS, phone={"type": "string", "pattern": "^\\+[0-9]{6,12}$"}),
    record(answer={"enum": ["yes", "no", "unknown"]}, confidence={"type": "number", "minimum": 0, "maximum": 1}),
    record(sentiment={"enum": ["positive", "neutral", "negative"]}, words=items(TEXT, 1, 3)),
    items(record(name=TEXT, price={"type": "number", "minimum": 0}), 1, 3),
    record(steps=items(record(do=TEXT, seconds={"type": "integer", "minimum": 0}), 1, 3)),
    {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 4, "propertyNames": {"maxLength": 12}},
    record(title=TEXT, year={"type": "integer", "minimum": 1900, "maximum": 2100}, genres=items({"enum": ["drama", "comedy", "crime"]}, 1, 3)),
    record(email={"type": "string", "format": "email", "maxLength": 40}),
    record(host={"type": "string", "format": "hostname", "maxLength": 30}, address={"type": "string", "format": "ipv4"}),
    record(at={"type": "string", "format": "time"}, lasts={"type": "string", "format": "duration"}),
    record(begin={"type": "string", "format": "date-time"}),
    record(point={"type": "array", "prefixItems": [NUMBER, NUMBER], "minItems": 2, "maxItems": 2, "items": False}),
    record(["a"], a=INTEGER, b=TEXT, c=FLAG),
    record([], x=FLAG, y=FLAG, z=FLAG),
    {"anyOf": [{"type": "integer"}, {"type": "boolean"}, {"type": "null"}]},
    {"enum": ["a", "ab", "abc", 1, 12, None, True, {"k": [1, 2]}]},
    {"const": {"version": 2, "ok": True}},
    {"type": "integer", "minimum": -273, "maximum": 5500},
    {"type": "integer", "exclusiveMinimum": 0, "multipleOf": 5, "maximum": 500},
    {"type": "number", "exclusiveMinimum": -1.5, "exclusiveMaximum": 1.5},
    {"type": "string", "minLength": 3, "maxLength": 12},
    {"type": "string", "pattern": "^(GET|PUT|POST) /[a-z]{1,8}(/[0-9]{1,3})?$"},
    {"type": "string", "format": "uuid"},
    {"type": ["integer", "null"], "minimum": 0},
    {"type": ["array", "null"], "items": {"type": "boolean"}, "maxItems": 5},
    {"allOf": [{"type": "object", "properties": {"a": INTEGER}, "required": ["a"]},
               {"properties": {"b": FLAG}, "required": ["b"]}], "type": "object", "maxProperties": 3},
    {"$defs": {"tree": record(["value"], value=INTEGER, left={"$ref": "#/$defs/tree"}, right={"$ref": "#/$defs/tree"})}, "$ref": "#/$defs/tree"},
    {"$defs": {"json": {"anyOf": [{"type": "string", "maxLength": 10}, NUMBER, {"type": "array", "items": {"$ref": "#/$defs/json"}, "maxItems": 3}]}},
     "$ref": "#/$defs/json"},
    {"definitions": {"money": record(amount={"type": "number", "minimum": 0}, currency={"enum": ["EUR", "USD"]})},
     **record(price={"$ref": "#/definitions/money"}, tax={"$ref": "#/definitions/money"})},
    {"oneOf": [record(type={"const": "text"}, text=TEXT), record(type={"const": "image"}, url={"type": "string", "pattern": "^https://[a-z]{1,20}$"}),
               record(type={"const": "stop"})]},
    record(nested=record(deeper=record(deepest=record(value=INTEGER)))),
    record(matrix=items(items({"type": "integer", "minimum": 0, "maximum": 9}, 2, 2), 2, 2)),
    record(**{"with space": FLAG, "quote\"d": FLAG, "ümlaut": FLAG, "$dollar": FLAG}),
    record(name={"type": "string", "minLength": 1, "maxLength": 20, "nullable": True}, tags=items({"type": "string", "pattern": "^#[a-z]{2,9}$"}, 2, 4)),
    {"type": "object", "properties": {"kind": {"const": "a"}}, "required": ["kind"], "patternProperties": {"^x_[a-z]{1,4}$": INTEGER},
     "additionalProperties": False, "maxProperties": 3},
    {"type": "object", "properties": {"id": INTEGER}, "required": ["id"], "additionalProperties": {"type": "string", "maxLength": 10},
     "maxProperties": 3},
    record(language={"type": "string", "pattern": "^[a-z]{2}(-[A-Z]{2})?$"}, text=TEXT),
    record(score={"type": "number", "minimum": 0, "maximum": 10, "multipleOf": 0.5}, reason={"type": "string", "maxLength": 60}),
    {"title": "Person", "description": "Somebody", "type": "object", "properties": {
        "first": {"type": "string", "title": "First name", "maxLength": 15}, "age": {"type": "integer", "minimum": 0, "maximum": 130, "default": 30},
        "friends": {"type": "array", "items": {"type": "string", "maxLength": 15}, "maxItems": 3, "examples": [["Ann"]]}},
     "required": ["first", "age"], "additionalProperties": False},
    {"type": "array", "prefixItems": [{"enum": ["add", "sub"]}, INTEGER, INTEGER], "minItems": 3, "maxItems": 3},
)
