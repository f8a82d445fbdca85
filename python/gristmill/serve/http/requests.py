"""Bodies of requests: JSON, checked field by field against a table that also describes it.

A body that is no JSON in UTF-8, or is nested too deeply, is a 400; JSON that is not what the
endpoint takes is a 422 that names the field. Nothing here recurses as deep as a body is nested.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

# Deeper than any chat, and far from Python's limit on recursion, which templates run into.
DEEPEST = 64
# Of what a client wrote, an error repeats so many characters.
LONGEST_MESSAGE = 500
LARGEST_ID = 2**32 - 1


class Problem(Exception):
    """A request that cannot be answered: the status and what is wrong."""

    def __init__(self, status: int, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.field = field

    def body(self) -> bytes:
        """The shape that clients of OpenAI and of vLLM know."""
        message = self.message
        if len(message) > LONGEST_MESSAGE:
            message = message[:LONGEST_MESSAGE] + "..."
        error = {
            "message": message,
            "type": "BadRequestError" if self.status < 500 else "InternalServerError",
            "param": self.field,
            "code": self.status,
        }
        return json.dumps({"error": error}).encode()


@dataclass(frozen=True)
class Kind:
    """A kind of value: how JSON Schema says it, and whether a value is one."""

    name: str
    schema: Mapping[str, Any]
    holds: Callable[[Any], bool]


def _ids(value: Any) -> bool:
    # A bool is an int to isinstance, and a set of types is made at the speed of C.
    return (
        type(value) is list
        and set(map(type, value)) <= {int}
        and (not value or (min(value) >= 0 and max(value) <= LARGEST_ID))
    )


def _messages(value: Any) -> bool:
    return (
        type(value) is list
        and bool(value)
        and all(type(item) is dict and type(item.get("role")) is str for item in value)
    )


def _list_of(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: type(value) is list and all(map(holds, value))


_ID = {"type": "integer", "minimum": 0, "maximum": LARGEST_ID}
_ANY_OBJECT = {"type": "object", "additionalProperties": True}
BOOLEAN = Kind("true or false", {"type": "boolean"}, lambda value: type(value) is bool)
TEXT = Kind("a string", {"type": "string"}, lambda value: type(value) is str)
TEXTS = Kind(
    "a list of strings",
    {"type": "array", "items": {"type": "string"}},
    _list_of(TEXT.holds),
)
IDS = Kind(f"a list of integers from 0 to {LARGEST_ID}", {"type": "array", "items": _ID}, _ids)
LISTS_OF_IDS = Kind(
    f"a list of lists of integers from 0 to {LARGEST_ID}",
    {"type": "array", "items": IDS.schema},
    _list_of(_ids),
)
MESSAGES = Kind(
    "a list of at least one message, each an object with a role",
    {
        "type": "array",
        "minItems": 1,
        "items": {
            "type": "object",
            "required": ["role"],
            "properties": {"role": {"type": "string"}},
            "additionalProperties": True,
        },
    },
    _messages,
)
OBJECT = Kind("an object", _ANY_OBJECT, lambda value: type(value) is dict)
OBJECTS = Kind("a list of objects", {"type": "array", "items": _ANY_OBJECT}, _list_of(OBJECT.holds))


def one_of(*choices: str) -> Kind:
    """One of these strings."""
    return Kind(
        f"one of {', '.join(choices)}",
        {"type": "string", "enum": list(choices)},
        lambda value: value in choices if type(value) is str else False,
    )


def whole(least: int, most: int) -> Kind:
    """An integer in a range."""
    return Kind(
        f"an integer from {least} to {most}",
        {"type": "integer", "minimum": least, "maximum": most},
        lambda value: type(value) is int and least <= value <= most,
    )


@dataclass(frozen=True)
class Field:
    """A field of a body. Without a default it is required; None stands for one that is left out."""

    name: str
    kind: Kind
    about: str
    default: Any = None
    required: bool = False
    nested: bool = False
    """What it holds goes to a template, so its depth is limited."""

    def schema(self) -> dict[str, Any]:
        """What JSON Schema says of it."""
        schema: dict[str, Any] = {**self.kind.schema, "description": self.about}
        if not self.required:
            schema["default"] = self.default
            if self.default is None:
                kind = schema.pop("type")
                schema["type"] = [kind, "null"]
        return schema


@dataclass(frozen=True)
class Form:
    """What a body may be: its fields, and no others."""

    name: str
    fields: tuple[Field, ...]

    def schema(self) -> dict[str, Any]:
        """What JSON Schema says of it."""
        return {
            "type": "object",
            "properties": {field.name: field.schema() for field in self.fields},
            "required": [field.name for field in self.fields if field.required],
            "additionalProperties": False,
        }

    def read(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The value of each field."""
        values = {}
        for field in self.fields:
            if field.name not in body:
                if field.required:
                    raise Problem(422, f"{field.name} is missing", field.name)
                values[field.name] = field.default
                continue
            value = body[field.name]
            if value is None and field.default is None and not field.required:
                values[field.name] = None
                continue
            if not field.kind.holds(value):
                raise Problem(422, f"{field.name} must be {field.kind.name}", field.name)
            if field.nested:
                limit_depth(value, field.name)
            values[field.name] = value
        unknown = body.keys() - values.keys()
        if unknown:
            name = min(unknown)
            known = ", ".join(values)
            raise Problem(422, f"there is no field {name!r} here; there are {known}", name)
        return values


def read_json(data: bytes) -> dict[str, Any]:
    """The object that a body holds."""
    try:
        # What JSON allows in other encodings is not allowed between systems (RFC 8259, 8.1).
        body = json.loads(data.decode(), parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise Problem(400, f"the body is not UTF-8: byte {error.start}") from None
    except RecursionError:
        raise Problem(400, "the body is nested too deeply") from None
    except ValueError as error:
        raise Problem(400, f"the body is not JSON: {error}") from None
    if type(body) is not dict:
        raise Problem(422, "the body must be an object")
    return body


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number in JSON")


def limit_depth(value: Any, name: str) -> None:
    """Refuse what is nested deeper than templates can take."""
    level = [value]
    for _ in range(DEEPEST):
        level = [
            child
            for item in level
            for child in (item.values() if type(item) is dict else item)
            if type(child) is dict or type(child) is list
        ]
        if not level:
            return
    raise Problem(400, f"{name} is nested deeper than {DEEPEST} levels", name)
