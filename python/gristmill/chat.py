"""Chats to text and ids, as transformers 5.23 does it.

A chat template is a jinja2 program that comes with a model. It runs in a sandbox, sees nothing but
plain data, and is compiled once. What it is given is what transformers gives it: the messages
without the keys that are None, tools, documents, the names of the special tokens, and whatever else
the caller passes. Tools are JSON schemas; transformers also takes functions, which are refused
here.

`Tokenizer.encode_chat` is `encode` of this module. `tests/test_oracle_chat.py` compares texts, ids,
masks and errors with transformers. jinja2 is the extra `gristmill[chat]`, loaded with the first
template.
"""

import dataclasses
import functools
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from datetime import datetime
from pathlib import Path
from typing import Any

from gristmill._native import Tokenizer

Message = Mapping[str, Any]
Spans = list[tuple[int, int]]

# Compiled templates that are kept.
COMPILED = 64
TEMPLATE_FILE = "chat_template.jinja"
TEMPLATE_FOLDER = "chat_templates"
SETTINGS_FILES = ("tokenizer_config.json", "special_tokens_map.json")
# A message's reasoning has had several names. Templates read the first, gpt-oss's the second.
REASONING = ("reasoning_content", "thinking", "reasoning")
# Marks the end of a message that is to be continued. Templates often trim what they are given, and
# whether the space at its end is still there afterwards tells.
END = "CONTINUE_FINAL_MESSAGE_TAG "


class ChatTemplate:
    """The chat template of a model, or several by name, and the special tokens it may name."""

    def __init__(
        self,
        template: str | Mapping[str, str],
        /,
        *,
        special_tokens: Mapping[str, str] | None = None,
    ) -> None:
        """`special_tokens` gives the tokens by the names templates have for them: bos_token, ..."""
        self.templates = {"default": template} if isinstance(template, str) else dict(template)
        self.special_tokens = dict(special_tokens or {})

    @classmethod
    def load(cls, folder: str | Path, /) -> "ChatTemplate | None":
        """The template that lies beside a tokenizer, None if there is none.

        `folder` is the tokenizer's folder or its file. A file chat_template.jinja and those in
        chat_templates/ win over what tokenizer_config.json says.
        """
        folder = Path(folder)
        folder = folder if folder.is_dir() else folder.parent
        settings, others = (_read(folder / name) for name in SETTINGS_FILES)
        named = {path.stem: path for path in sorted((folder / TEMPLATE_FOLDER).glob("*.jinja"))}
        if (folder / TEMPLATE_FILE).is_file():
            named["default"] = folder / TEMPLATE_FILE
        templates = {name: path.read_text(encoding="utf-8") for name, path in named.items()}
        template = templates or settings.get("chat_template")
        if isinstance(template, list):
            template = {entry["name"]: entry["template"] for entry in template}
        if not template:
            return None
        return cls(template, special_tokens=_tokens(others) | _tokens(settings))

    def __repr__(self) -> str:
        return f"<gristmill.ChatTemplate: {', '.join(sorted(self.templates))}>"

    def source(self, name: str | None = None, *, has_tools: bool = False) -> str:
        """The template of this name; without one, that for tools if there are any, or default."""
        if name is None:
            name = "tool_use" if has_tools and "tool_use" in self.templates else "default"
        if name not in self.templates:
            known = ", ".join(sorted(self.templates))
            raise ValueError(f"there is no chat template {name!r}; name one of: {known}")
        return self.templates[name]

    def render(
        self,
        messages: Sequence[Message],
        /,
        *,
        name: str | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        documents: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = False,
        continue_final_message: bool | str = False,
        **kwargs: Any,
    ) -> str:
        """The text of a chat.

        `add_generation_prompt` ends it with what makes a model answer, `continue_final_message` in
        the middle of the last message, so that the model goes on with it; a string names the key of
        the message to go on with. `kwargs` are for the template.
        """
        return self._render(
            messages,
            name=name,
            tools=tools,
            documents=documents,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message,
            **kwargs,
        )[0]

    def render_with_spans(
        self, messages: Sequence[Message], /, **options: Any
    ) -> tuple[str, Spans]:
        """`render`, and where in the text the template says that the assistant speaks."""
        if options.get("continue_final_message"):
            raise ValueError(
                "a message that is continued and the assistant's spans do not go together"
            )
        spans: Spans = []
        return self._render(messages, spans=spans, **options)[0], spans

    def _render(
        self,
        messages: Sequence[Message],
        *,
        name: str | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        documents: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = False,
        continue_final_message: bool | str = False,
        spans: Spans | None = None,
        **kwargs: Any,
    ) -> tuple[str, Spans | None]:
        source = self.source(name, has_tools=tools is not None)
        if not messages:
            raise ValueError("a chat has at least one message")
        if continue_final_message and add_generation_prompt:
            raise ValueError(
                "continue_final_message goes on with the last message and add_generation_prompt "
                "begins a new one: only one of them can be true"
            )
        template = _compiled(source)
        values = {
            "tools": _schemas(tools),
            "documents": _documents(documents),
            "add_generation_prompt": add_generation_prompt,
            **self.special_tokens,
            **_plain(kwargs),
        }
        chat = _chat(messages)
        if not continue_final_message:
            return _run(template, {"messages": chat, **values}, spans), spans
        key = continue_final_message if isinstance(continue_final_message, str) else "content"
        text = _mark_end(chat, key, source)
        return _cut_at_end(_run(template, {"messages": chat, **values}, spans), text), spans


def encode(
    tokenizer: Tokenizer,
    messages: Sequence[Message],
    *,
    template: ChatTemplate | str | None = None,
    return_assistant_mask: bool = False,
    **options: Any,
) -> list[int] | tuple[list[int], list[int]]:
    """The ids of a chat; see `Tokenizer.encode_chat`."""
    chosen, options = choose(tokenizer, template, options)
    if not return_assistant_mask:
        return tokenizer.encode(chosen.render(messages, **options), special="parse")
    text, spans = chosen.render_with_spans(messages, **options)
    ids, offsets = tokenizer.encode_with_offsets(text, special="parse")
    return ids, _mask(offsets, spans)


def choose(
    tokenizer: Tokenizer, template: ChatTemplate | str | None, options: dict[str, Any]
) -> tuple[ChatTemplate, dict[str, Any]]:
    """The template a caller means, and what it is rendered with."""
    own = tokenizer.chat_template if template is None or isinstance(template, str) else None
    if isinstance(template, str):
        if own is not None and template in own.templates:
            return own, options | {"name": template}
        return ChatTemplate(template, special_tokens=own.special_tokens if own else None), options
    chosen = template or own
    if chosen is None:
        raise ValueError(
            "this tokenizer has no chat template: none lay beside its file (chat_template.jinja or "
            "tokenizer_config.json); pass template="
        )
    return chosen, options


def _mask(offsets: Sequence[tuple[int, int]], spans: Spans) -> list[int]:
    """1 for each token of a span."""
    mask = [0] * len(offsets)
    token_at: dict[int, int] = {}
    for token, (start, end) in enumerate(offsets):
        for char in range(start, end):
            token_at.setdefault(char, token)
    for start, end in spans:
        first, last = token_at.get(start), token_at.get(end - 1)
        if first is None:
            break
        # Where no token has the last character, or the first token has it, transformers marks all
        # that follows.
        for token in range(first, last + 1 if last else len(mask)):
            mask[token] = 1
    return mask


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    found = json.loads(path.read_text(encoding="utf-8"))
    return found if isinstance(found, dict) else {}


def _tokens(settings: Mapping[str, Any]) -> dict[str, str]:
    """The named special tokens of a settings file."""
    named = dict(settings)
    extra = settings.get("extra_special_tokens")
    named |= extra if isinstance(extra, dict) else {}
    found = {}
    for name, token in named.items():
        content = token.get("content") if isinstance(token, dict) else token
        if name.endswith("_token") and isinstance(content, str):
            found[name] = content
    return found


def _chat(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The messages as templates see them: a copy, in which the marks of a continuation are put."""
    chat = []
    for message in messages:
        if type(message) is not dict and not isinstance(message, Mapping):
            raise TypeError(f"a message is a dictionary, not {type(message).__name__}")
        plain = {
            _plain(key): value if type(value) is str else _plain(value)
            for key, value in message.items()
            if value is not None
        }
        said = next((plain[key] for key in REASONING if key in plain), None)
        if said is not None:
            plain = {"thinking": said, **plain, "reasoning_content": said}
        chat.append(plain)
    return chat


def _schemas(tools: Sequence[Mapping[str, Any]] | None) -> Any:
    for tool in tools or ():
        if not isinstance(tool, dict):
            raise ValueError(
                f"a tool is a JSON schema in a dictionary, not {type(tool).__name__}; schemas are "
                "not made from functions here"
            )
    return _plain(tools)


def _documents(documents: Sequence[Mapping[str, Any]] | None) -> Any:
    for document in documents or ():
        if not isinstance(document, dict):
            raise TypeError(f"a document is a dictionary, not {type(document).__name__}")
    return _plain(documents)


def _plain(value: Any) -> Any:
    """The same in plain data, whose methods do no harm; anything else is only its type's name."""
    if value is None or type(value) in (str, int, float, bool):
        return value
    for kind in (str, int, float):
        if isinstance(value, kind):
            return getattr(kind, f"__{kind.__name__}__")(value)
    if isinstance(value, Mapping):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic):
        return _plain(value.item())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {field.name: _plain(getattr(value, field.name)) for field in fields}
    if callable(getattr(value, "model_dump", None)):
        return _plain(value.model_dump())
    return f"<{type(value).__name__}>"


def _mark_end(chat: list[dict[str, Any]], key: str, source: str) -> str:
    """Mark the end of what is to be continued; return its text."""
    last = chat[-1]
    content = last.get(key)
    if content is None:
        raise ValueError(f"the last message has no {key!r} to continue")
    keys = [key]
    if key in REASONING:
        keys = [other for other in REASONING if last.get(other) == content]
    if not any(other in source for other in keys):
        raise ValueError(f"the chat template does not read {key!r}, so it cannot be continued")
    if not isinstance(content, list | tuple):
        for other in keys:
            last[other] = last[other] + END
        return str(content)
    for part in reversed(content):
        if "text" in part:
            text = part["text"]
            part["text"] = text + END
            return str(text)
    raise ValueError("the last message has no text to continue")


def _cut_at_end(rendered: str, text: str) -> str:
    """The rendered chat up to the mark."""
    mark = END.strip()
    if text.strip() not in rendered or mark not in rendered:
        raise ValueError(
            "the chat template does not write the last message as it is, so it cannot be "
            f"continued: {text.strip()!r} is not in {rendered!r}"
        )
    at = rendered.rindex(mark)
    before = rendered[:at]
    return before if rendered[at:].startswith(END) else before.rstrip()


class _Progress:
    """How long a text has become, and where the assistant spoke in it."""

    def __init__(self, spans: Spans) -> None:
        self.length = 0
        self.spans = spans


# The rendering that is going on; templates are shared by threads and tasks.
_PROGRESS: ContextVar[_Progress | None] = ContextVar("progress", default=None)


def _run(template: Any, values: dict[str, Any], spans: Spans | None) -> str:
    if spans is None:
        text: str = template.render(values)
        return text
    progress = _Progress(spans)
    token = _PROGRESS.set(progress)
    blocks: list[str] = []
    try:
        for block in template.generate(values):
            blocks.append(block)
            progress.length += len(block)
    finally:
        _PROGRESS.reset(token)
    return "".join(blocks)


@functools.lru_cache(maxsize=COMPILED)
def _compiled(source: str) -> Any:
    return _environment().from_string(source)


@functools.cache
def _environment() -> Any:
    """The sandbox that templates run in."""
    try:
        import jinja2
        import jinja2.ext
        import jinja2.nodes
        import jinja2.sandbox
        import jinja2.utils
    except ImportError as error:
        raise ImportError(
            "chat templates need the package jinja2: pip install 'gristmill[chat]'"
        ) from error

    class Generation(jinja2.ext.Extension):
        """`{% generation %}`, around what the assistant says."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            call = jinja2.nodes.CallBlock(self.call_method("_said"), [], [], body)
            return call.set_lineno(line)

        def _said(self, caller: Any) -> str:
            text: str = caller()
            progress = _PROGRESS.get()
            if progress is not None:
                progress.spans.append((progress.length, progress.length + len(text)))
            return text

    class Dictionary:
        """`dict`, of which templates need to make some, and no more."""

        def __call__(self, *pairs: Any, **values: Any) -> dict[Any, Any]:
            return dict(*pairs, **values)

        def fromkeys(self, keys: Iterable[Any], value: Any = None) -> dict[Any, Any]:
            return dict.fromkeys(keys, value)

    class Namespace(jinja2.utils.Namespace):
        """`namespace`, without a way to what is inside of objects."""

        def __init__(*args: Any, **values: Any) -> None:
            self, *given = args
            values = dict(*given, **values)
            for name in values:
                _refuse_private(name)
            jinja2.utils.Namespace.__init__(self, values)

        def __setitem__(self, name: str, value: Any) -> None:
            _refuse_private(name)
            super().__setitem__(name, value)

    def _refuse_private(name: Any) -> None:
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(
                f"a namespace has no private name such as {name!r}"
            )

    def raise_exception(message: str) -> None:
        raise jinja2.exceptions.TemplateError(message)

    def strftime_now(format: str) -> str:
        return datetime.now().strftime(format)

    class Sandbox(jinja2.sandbox.ImmutableSandboxedEnvironment):
        """Looks for a key first where no attribute can have its name: most of a template's time."""

        def getattr(self, obj: Any, attribute: str) -> Any:
            if type(obj) is not dict or attribute in attributes:
                return super().getattr(obj, attribute)
            try:
                return obj[attribute]
            except KeyError:
                return self.undefined(obj=obj, name=attribute)

    attributes = frozenset(dir(dict))
    environment = Sandbox(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[Generation, jinja2.ext.loopcontrols],
    )
    environment.filters["tojson"] = _to_json
    environment.globals |= {
        "raise_exception": raise_exception,
        "strftime_now": strftime_now,
        "dict": Dictionary(),
        "namespace": Namespace,
    }
    return environment


def _to_json(
    x: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Without the escapes for HTML of jinja's own filter."""
    return json.dumps(
        x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
