"""The service described for programs: OpenAPI 3.1, made of the tables that requests are read by."""

from typing import Any

from gristmill import __version__
from gristmill.serve.http.endpoints import ENDPOINTS, Endpoint, House

_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": "integer"},
            },
        }
    },
}
REFUSALS = {
    400: "The body is not JSON in UTF-8, or nested too deeply.",
    404: "There is no such tokenizer.",
    405: "The method is not one of this path.",
    408: "The body did not arrive in time.",
    413: "The body or the batch is too large.",
    415: "The body is not application/json, or is compressed.",
    422: "The body is not what is taken here, an id is unknown, or a template refuses the chat.",
    503: "Too much is under way, or the answer was not made in time.",
}
_TOKENIZER = {
    "type": "object",
    "required": ["name", "vocab_size", "special_tokens", "max_model_len", "has_chat_template"],
    "properties": {
        "name": {"type": "string"},
        "format": {"type": ["string", "null"]},
        "vocab_size": {"type": "integer"},
        "special_tokens": {"type": "object", "additionalProperties": {"type": "integer"}},
        "max_model_len": {"type": ["integer", "null"]},
        "has_chat_template": {"type": "boolean"},
    },
}


def description(house: House) -> dict[str, Any]:
    """The document at /openapi.json."""
    forms = {form.name: form for endpoint in ENDPOINTS.values() for form in endpoint.forms}
    schemas = {name: form.schema() for name, form in forms.items()}
    for schema in schemas.values():
        schema["properties"]["model"] |= {"enum": [*house.models, None]}
    paths: dict[str, Any] = {
        path: {"post": _operation(path, endpoint)} for path, endpoint in ENDPOINTS.items()
    }
    for path, about, schema in (
        ("/health", "Whether the service is there.", {"type": "object"}),
        ("/version", "The version of Gristmill.", {"type": "object"}),
        (
            "/tokenizers",
            "What is served.",
            {
                "type": "object",
                "required": ["tokenizers"],
                "properties": {"tokenizers": {"type": "array", "items": _TOKENIZER}},
            },
        ),
    ):
        paths[path] = {"get": _get(path, about, "application/json", schema)}
    text = {"type": "string"}
    paths["/metrics"] = {"get": _get("/metrics", "Counts, for Prometheus.", "text/plain", text)}
    paths["/"] = {"get": _get("/", "The playground, for people.", "text/html", text)}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Gristmill",
            "version": __version__,
            "description": "Text and chats to token ids, and back.",
        },
        "paths": paths,
        "components": {"schemas": {**schemas, "Error": _ERROR}},
    }


def _name(path: str) -> str:
    return path.strip("/").replace("/", "_") or "playground"


def _content(kind: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {kind: {"schema": schema}}


def _get(path: str, about: str, kind: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "operationId": _name(path),
        "summary": about,
        "responses": {"200": {"description": about, "content": _content(kind, schema)}},
    }


def _operation(path: str, endpoint: Endpoint) -> dict[str, Any]:
    forms: list[dict[str, Any]] = [
        {"$ref": f"#/components/schemas/{form.name}"} for form in endpoint.forms
    ]
    answer = {
        "type": "object",
        "required": list(endpoint.answer),
        "properties": dict(endpoint.answer),
        "additionalProperties": False,
    }
    error = _content("application/json", {"$ref": "#/components/schemas/Error"})
    refusals = {
        str(status): {"description": about, "content": error} for status, about in REFUSALS.items()
    }
    body = forms[0] if len(forms) == 1 else {"oneOf": forms}
    return {
        "operationId": _name(path),
        "summary": endpoint.about,
        "requestBody": {"required": True, "content": _content("application/json", body)},
        "responses": {
            "200": {
                "description": endpoint.about,
                "content": _content("application/json", answer),
            },
            **refusals,
        },
    }
