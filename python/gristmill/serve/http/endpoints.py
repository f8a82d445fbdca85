"""What each endpoint takes and gives.

An endpoint is a function from what its form read to a dictionary, the answer. It runs on the event
loop if the body is small and in a thread if not, so it shares nothing that changes. The shapes of
`/tokenize` and `/detokenize` are vLLM's, in which special tokens written in a text become their ids
unless `special` says otherwise. What `describe` of a form or an answer says is checked against what
happens in tests/browser.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gristmill import ChatTemplate, Tokenizer
from gristmill.serve.http.requests import (
    BOOLEAN,
    IDS,
    LISTS_OF_IDS,
    MESSAGES,
    OBJECT,
    OBJECTS,
    TEXT,
    TEXTS,
    Field,
    Form,
    Problem,
    one_of,
    whole,
)

# Longer lists of ids are written in parts, between which other threads have their turn.
PART = 8192
# What transformers writes where it knows no limit is larger than this.
LONGEST_MODEL = 10**12
# Names that `ChatTemplate.render` has for itself.
RESERVED = frozenset(
    {"messages", "name", "tools", "documents", "add_generation_prompt", "continue_final_message"}
    | {"spans", "self"}
)


@dataclass(frozen=True)
class Model:
    """A tokenizer under the name that requests call it by."""

    name: str
    tokenizer: Tokenizer
    max_model_len: int | None = None


@dataclass
class House:
    """What the endpoints work with."""

    models: Mapping[str, Model]
    max_batch: int = 1024
    allow_templates: bool = False
    """Whether requests may bring templates of their own: programs, which may run for ever."""

    def model(self, name: str | None) -> Model:
        """The tokenizer a request names; the first if it names none."""
        if name is None:
            return next(iter(self.models.values()))
        try:
            return self.models[name]
        except KeyError:
            known = ", ".join(self.models)
            raise Problem(404, f"there is no tokenizer {name!r}; there are {known}") from None


@dataclass
class Answer:
    """What an endpoint says, and what is to be counted."""

    body: dict[str, Any]
    model: str
    encoded: int = 0
    decoded: int = 0

    def parts(self) -> Iterator[str]:
        """The body as JSON, in parts none of which takes long to write."""
        opening = "{"
        for name, value in self.body.items():
            yield f"{opening}{json.dumps(name)}:"
            opening = ","
            if type(value) is not list or len(value) <= PART:
                yield json.dumps(value, separators=(",", ":"))
                continue
            for at in range(0, len(value), PART):
                some = json.dumps(value[at : at + PART], separators=(",", ":"))
                yield ("," if at else "[") + some[1:-1]
            yield "]"
        yield "}"


Values = dict[str, Any]

MODEL = Field("model", TEXT, "The tokenizer's name; without it, the first one.")
SPECIAL = Field(
    "special",
    one_of("parse", "text", "forbid"),
    "Special tokens written in the text become their ids, stay text, or are an error.",
    "parse",
)
STRINGS = Field(
    "return_token_strs", BOOLEAN, "Give the tokens too, as the tokenizer's file writes them.", False
)
ADD = "Put the tokens around the text that the tokenizer's file asks for."
PROMPT_FIELDS = (
    MODEL,
    Field("prompt", TEXT, "The text.", required=True),
    Field("add_special_tokens", BOOLEAN, ADD, True),
    SPECIAL,
)
CHAT_FIELDS = (
    MODEL,
    Field("messages", MESSAGES, "The chat.", required=True, nested=True),
    Field("add_generation_prompt", BOOLEAN, "End with what makes the model answer.", True),
    Field("continue_final_message", BOOLEAN, "End inside of the last message.", False),
    Field("add_special_tokens", BOOLEAN, f"{ADD} Templates write their own.", False),
    Field("tools", OBJECTS, "JSON schemas of tools.", nested=True),
    Field("documents", OBJECTS, "Documents, for templates that take them.", nested=True),
    Field("chat_template", TEXT, "A template of your own, where the service allows it."),
    Field("chat_template_kwargs", OBJECT, "More values for the template.", nested=True),
)
LIMIT = Field(
    "limit",
    whole(0, 1_000_000),
    "So many tokens are described; all are counted.",
    10_000,
)

TOKENIZE_PROMPT = Form("TokenizePrompt", (*PROMPT_FIELDS, STRINGS))
TOKENIZE_CHAT = Form("TokenizeChat", (*CHAT_FIELDS, STRINGS))
COUNT_PROMPT = Form("CountPrompt", PROMPT_FIELDS)
COUNT_CHAT = Form("CountChat", CHAT_FIELDS)
INSPECT_PROMPT = Form("InspectPrompt", (*PROMPT_FIELDS, LIMIT))
INSPECT_CHAT = Form("InspectChat", (*CHAT_FIELDS, LIMIT))
SKIP = Field("skip_special_tokens", BOOLEAN, "Special tokens give no text.", False)
DETOKENIZE = Form("Detokenize", (MODEL, Field("tokens", IDS, "The ids.", required=True), SKIP))
PROMPTS = Field("prompts", TEXTS, "The texts.", required=True)
BATCH_OPTIONS = (MODEL, PROMPTS, Field("add_special_tokens", BOOLEAN, ADD, True), SPECIAL)
TOKENIZE_BATCH = Form("TokenizeBatch", BATCH_OPTIONS)
COUNT_BATCH = Form("CountBatch", BATCH_OPTIONS)
DETOKENIZE_BATCH = Form(
    "DetokenizeBatch", (MODEL, Field("tokens", LISTS_OF_IDS, "Ids.", required=True), SKIP)
)


def text_of(model: Model, values: Values, house: House) -> tuple[str, dict[str, Any]]:
    """The text that a prompt or a chat is, and how it is encoded."""
    add = {"add_special_tokens": values["add_special_tokens"]}
    if "prompt" in values:
        return values["prompt"], {"special": values["special"], **add}
    template: ChatTemplate | None = model.tokenizer.chat_template
    source = values["chat_template"]
    if source is not None:
        if not house.allow_templates:
            raise Problem(422, "this service takes no templates from requests", "chat_template")
        tokens = template.special_tokens if template is not None else None
        template = ChatTemplate(source, special_tokens=tokens)
    if template is None:
        raise Problem(422, f"the tokenizer {model.name!r} has no chat template", "messages")
    more = values["chat_template_kwargs"] or {}
    reserved = RESERVED.intersection(more)
    if reserved:
        raise Problem(422, f"{min(reserved)} is no value for templates", "chat_template_kwargs")
    try:
        text = template.render(
            values["messages"],
            tools=values["tools"],
            documents=values["documents"],
            add_generation_prompt=values["add_generation_prompt"],
            continue_final_message=values["continue_final_message"],
            **more,
        )
    except Exception as error:
        # Templates raise what they like, and refuse chats so; it is the chat that is wrong.
        detail = f"{type(error).__name__}: {error}"
        raise Problem(422, f"the chat template refuses this chat: {detail}", "messages") from None
    return text, {"special": "parse", **add}


def tokenize(house: House, values: Values) -> Answer:
    """Text or chat to ids."""
    model = house.model(values["model"])
    text, how = text_of(model, values, house)
    ids = model.tokenizer.encode(text, **how)
    strings = None
    if values["return_token_strs"]:
        strings = names_of(model.tokenizer, ids)
    body = {
        "count": len(ids),
        "max_model_len": model.max_model_len,
        "tokens": ids,
        "token_strs": strings,
    }
    return Answer(body, model.name, encoded=len(ids))


def names_of(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    """Each token as the file writes it; a token that comes often is looked up once."""
    known = {id: tokenizer.id_to_token(id) for id in set(ids)}
    return [known[id] for id in ids]


def count(house: House, values: Values) -> Answer:
    """The number of ids of a text or chat."""
    model = house.model(values["model"])
    text, how = text_of(model, values, house)
    number = model.tokenizer.count(text, **how)
    return Answer({"count": number, "max_model_len": model.max_model_len}, model.name, number)


def inspect(house: House, values: Values) -> Answer:
    """All there is to know of the tokens of a text or chat."""
    model = house.model(values["model"])
    tokenizer = model.tokenizer
    text, how = text_of(model, values, house)
    ids, offsets = tokenizer.encode_with_offsets(text, **how)
    some = ids[: values["limit"]]
    special = set(tokenizer.special_tokens.values())
    known = {id: tokenizer.token_bytes(id).hex() for id in set(some)}
    body = {
        "count": len(ids),
        "max_model_len": model.max_model_len,
        "characters": len(text),
        "bytes": len(text.encode()),
        "text": text,
        "tokens": some,
        "token_strs": names_of(tokenizer, some),
        "token_bytes": [known[id] for id in some],
        "offsets": [list(pair) for pair in offsets[: len(some)]],
        "special": [id in special for id in some],
    }
    return Answer(body, model.name, encoded=len(ids))


def detokenize(house: House, values: Values) -> Answer:
    """Ids to text."""
    model = house.model(values["model"])
    ids = values["tokens"]
    text = model.tokenizer.decode(ids, skip_special_tokens=values["skip_special_tokens"])
    return Answer({"prompt": text}, model.name, decoded=len(ids))


def limit_batch(house: House, batch: list[Any], name: str) -> None:
    """Refuse a batch that is too large."""
    if len(batch) > house.max_batch:
        raise Problem(413, f"{name} has {len(batch)} items; at most {house.max_batch}", name)


def tokenize_batch(house: House, values: Values) -> Answer:
    """Texts to ids, on all cores."""
    model = house.model(values["model"])
    limit_batch(house, values["prompts"], "prompts")
    how = {name: values[name] for name in ("special", "add_special_tokens")}
    lists = model.tokenizer.encode_batch(values["prompts"], **how)
    counts = [len(ids) for ids in lists]
    body = {"counts": counts, "max_model_len": model.max_model_len, "tokens": lists}
    return Answer(body, model.name, encoded=sum(counts))


def count_batch(house: House, values: Values) -> Answer:
    """The numbers of ids of texts."""
    model = house.model(values["model"])
    limit_batch(house, values["prompts"], "prompts")
    how = {name: values[name] for name in ("special", "add_special_tokens")}
    counts = model.tokenizer.count_batch(values["prompts"], **how)
    return Answer({"counts": counts, "max_model_len": model.max_model_len}, model.name, sum(counts))


def detokenize_batch(house: House, values: Values) -> Answer:
    """Lists of ids to texts."""
    model = house.model(values["model"])
    limit_batch(house, values["tokens"], "tokens")
    skip = values["skip_special_tokens"]
    texts = model.tokenizer.decode_batch(values["tokens"], skip_special_tokens=skip)
    return Answer({"prompts": texts}, model.name, decoded=sum(map(len, values["tokens"])))


def tokenizers(house: House) -> dict[str, Any]:
    """What is served."""
    found = []
    for model in house.models.values():
        tokenizer = model.tokenizer
        found.append(
            {
                "name": model.name,
                "format": tokenizer.info.get("format"),
                "vocab_size": tokenizer.vocab_size,
                "special_tokens": tokenizer.special_tokens,
                "max_model_len": model.max_model_len,
                "has_chat_template": tokenizer.chat_template is not None,
            }
        )
    return {"tokenizers": found}


@dataclass(frozen=True)
class Endpoint:
    """A path that takes bodies: the forms they may have, told apart by a field, and the answer."""

    about: str
    forms: tuple[Form, ...]
    work: Callable[[House, Values], Answer]
    answer: Mapping[str, Any] = field(default_factory=dict)

    def read(self, body: dict[str, Any]) -> Values:
        """The values of a body."""
        if len(self.forms) == 1:
            return self.forms[0].read(body)
        prompt, chat = self.forms
        if "prompt" not in body and "messages" not in body:
            raise Problem(422, "prompt or messages is missing", "prompt")
        return chat.read(body) if "messages" in body else prompt.read(body)


def _list(item: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item}


_NUMBER = {"type": "integer", "minimum": 0}
_TEXT = {"type": "string"}
_LENGTH = {"type": ["integer", "null"], "description": "How long the model's context is."}
_COUNTED = {"count": _NUMBER, "max_model_len": _LENGTH}
_TOKENIZED = {
    **_COUNTED,
    "tokens": _list(_NUMBER),
    "token_strs": {"type": ["array", "null"], "items": _TEXT},
}
_INSPECTED = {
    **_COUNTED,
    "characters": _NUMBER,
    "bytes": _NUMBER,
    "text": {**_TEXT, "description": "The text that was encoded; of a chat, the rendered one."},
    "tokens": _list(_NUMBER),
    "token_strs": _list(_TEXT),
    "token_bytes": _list({**_TEXT, "description": "Hexadecimal."}),
    "offsets": {
        **_list({**_list(_NUMBER), "minItems": 2, "maxItems": 2}),
        "description": "Where each token stands in the text, in characters.",
    },
    "special": _list({"type": "boolean"}),
}
_TOKENIZE = Endpoint("Text or chat to ids.", (TOKENIZE_PROMPT, TOKENIZE_CHAT), tokenize, _TOKENIZED)
_DETOKENIZE = Endpoint("Ids to text.", (DETOKENIZE,), detokenize, {"prompt": _TEXT})

ENDPOINTS: dict[str, Endpoint] = {
    "/tokenize": _TOKENIZE,
    "/detokenize": _DETOKENIZE,
    "/count": Endpoint("How many ids.", (COUNT_PROMPT, COUNT_CHAT), count, _COUNTED),
    "/inspect": Endpoint(
        "Each token of a text or chat: its id, its bytes, where it stands.",
        (INSPECT_PROMPT, INSPECT_CHAT),
        inspect,
        _INSPECTED,
    ),
    "/tokenize/batch": Endpoint(
        "Texts to ids, on all cores.",
        (TOKENIZE_BATCH,),
        tokenize_batch,
        {"counts": _list(_NUMBER), "max_model_len": _LENGTH, "tokens": _list(_list(_NUMBER))},
    ),
    "/count/batch": Endpoint(
        "How many ids each text has.",
        (COUNT_BATCH,),
        count_batch,
        {"counts": _list(_NUMBER), "max_model_len": _LENGTH},
    ),
    "/detokenize/batch": Endpoint(
        "Lists of ids to texts.",
        (DETOKENIZE_BATCH,),
        detokenize_batch,
        {"prompts": _list(_TEXT)},
    ),
    "/v1/tokenize": _TOKENIZE,
    "/v1/detokenize": _DETOKENIZE,
    "/v1/chat/tokenize": Endpoint("A chat to ids.", (TOKENIZE_CHAT,), tokenize, _TOKENIZED),
    "/v1/chat/count": Endpoint("How many ids a chat has.", (COUNT_CHAT,), count, _COUNTED),
}


def max_model_len(path: str | Path) -> int | None:
    """What the settings beside a tokenizer's file say of the length of a text; None if nothing."""
    folder = Path(path) if Path(path).is_dir() else Path(path).parent
    settings = folder / "tokenizer_config.json"
    if not settings.is_file():
        return None
    found = json.loads(settings.read_text(encoding="utf-8"))
    length = found.get("model_max_length") if isinstance(found, dict) else None
    # It may be a float such as 1e30.
    if isinstance(length, int | float) and not isinstance(length, bool):
        return int(length) if 0 < length < LONGEST_MODEL else None
    return None
