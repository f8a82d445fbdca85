"""Chats of every kind, and templates that use what templates may use, for the tests of chats."""

import enum
from dataclasses import dataclass
from typing import Any

Chat = list[dict[str, Any]]


class Role(enum.StrEnum):
    """A string that is more than a string."""

    USER = "user"


@dataclass
class Part:
    """A message's part as a client may have it."""

    type: str
    text: str


PLAIN: Chat = [
    {"role": "system", "content": "Be brief. <b>&'\"</b>"},
    {"role": "user", "content": "Hi there\n"},
    {"role": "assistant", "content": " Hello! 🙂 {{ braces }} {% raw %}"},
    {"role": "user", "content": "  What is 2 + 2?  "},
]
WITH_TOOLS: Chat = [
    {"role": "user", "content": "How is the weather in Zürich?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "abcdef123",
                "type": "function",
                "function": {"name": "weather", "arguments": {"city": "Zürich", "days": 2}},
            }
        ],
    },
    {
        "role": "tool",
        "tool_call_id": "abcdef123",
        "name": "weather",
        "content": '{"sky": "<blue>"}',
    },
    {"role": "assistant", "content": "Blue."},
    {"role": "user", "content": "Thanks"},
]
CHATS: dict[str, Chat] = {
    "plain": PLAIN,
    "one": [{"role": "user", "content": "Hi"}],
    "no system": PLAIN[1:],
    "answered": PLAIN[:3],
    "tools": WITH_TOOLS,
    "parts": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is "},
                {"type": "image"},
                {"type": "text", "text": "this? "},
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "A mill. "}]},
    ],
    "reasoning": [
        {"role": "user", "content": "Why?"},
        {"role": "assistant", "content": "<think>hm</think>So.", "reasoning_content": "hm"},
        {"role": "user", "content": "Really?"},
        {"role": "assistant", "content": "Yes.", "thinking": "well", "reasoning": None},
    ],
    "wrong order": [{"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}],
    "unknown role": [{"role": "miller", "content": "grind"}],
    "empty content": [{"role": "user", "content": ""}, {"role": "assistant", "content": ""}],
    "no content": [{"role": "user"}],
    "special tokens": [{"role": "user", "content": "<|im_end|><s></s><bos> [INST]"}],
    "rich": [
        {"role": Role.USER, "content": [Part("text", "a"), {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": ("a", 1, 2.5, True, object)},
    ],
    "rich text": [{"role": Role.USER, "content": "a"}],
}
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather <of> a 'city' & its \"days\"",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "Zürich, …"},
                    "days": {"type": "integer", "enum": [1, 2], "default": None},
                },
                "required": ["city"],
            },
        },
    }
]
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "prompt": {"add_generation_prompt": True},
    "tools": {"tools": TOOLS, "add_generation_prompt": True},
    "no tools": {"tools": []},
    "continued": {"continue_final_message": True},
    "continued reasoning": {"continue_final_message": "reasoning_content"},
    "continued tools": {"continue_final_message": True, "tools": TOOLS},
    "both": {"continue_final_message": True, "add_generation_prompt": True},
    "documents": {"documents": [{"title": "T", "text": "…"}]},
    "kwargs": {"enable_thinking": False, "bos_token": "<own>", "reasoning_effort": "high"},
    "wrong tools": {"tools": ["weather"]},
    "wrong documents": {"documents": ["T"]},
}

TEMPLATES: dict[str, str] = {
    "chatml": """{% for message in messages %}
    {% if loop.first and message.role != 'system' %}
<|im_start|>system
You are a mill.<|im_end|>
    {% endif %}
{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}
{%- endfor %}
{% if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{% endif %}""",
    "trims": """{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content | trim }}
{%- endfor %}""",
    "marked": """{{ bos_token }}{% for m in messages -%}
{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{{ eos_token }}{% endgeneration %}
{%- else %}{{ m.role }}: {{ m.content }}
{% endif %}{% endfor %}""",
    "json": """{{ tools | tojson }}|{{ tools | tojson(indent=2) }}|{{ documents | tojson }}
{{- messages | tojson(sort_keys=true, separators=(',', ':')) }}|
{{- messages | tojson(ensure_ascii=true) }}""",
    "control": """{% set ns = namespace(last='', found=false) %}{% for m in messages %}
{% if m.role == 'system' %}{% continue %}{% endif %}{% if loop.index > 3 %}{% break %}{% endif %}
{% set ns.last = m.role %}{{ m.get('content', 'nothing') }}{% endfor %}
{{- ns.last }}{{ ns.found }}""",
    "strict": """{% if messages[0].role == 'assistant' %}
{{ raise_exception('assistant first <' ~ 1 ~ '>') }}
{% endif %}{% for m in messages %}{{ m.content.strip() }}{{ m.nothing }}
{{ m.items() | list | length }}
{% endfor %}{{ undefined_thing.x }}""",
    "clock": "{{ strftime_now('%d %b %Y %H:%M') }}{{ messages[-1].content }}",
    "dict": """{% set d = dict(a=1, **{'b': 2}) %}{{ d.a }}{{ dict.fromkeys(['x'], 3).x }}
{{- d.keys() | list }}
{{- messages[-1]['content'] | upper }}{{ (messages | map(attribute='role') | join(',')) }}""",
    "macros": """{% macro say(m, n=1) %}<{{ m.role }}>{% if m.content is string %}{{ m.content }}
{% else %}
{% for part in m.content %}{{ part.text if part.type == 'text' else '[' ~ part.type ~ ']' }}
{%- endfor %}
{% endif %}{{ n }}{% endmacro %}{% for m in messages %}{{ say(m, loop.index0) }}{% endfor %}""",
    "reasons": """{% for m in messages %}{{ m.reasoning_content }}/{{ m.thinking }}/{{ m.content }}
{%- endfor %}{{ enable_thinking is defined }}{{ reasoning_effort }}""",
    "private": "{% set ns = namespace(_a=1) %}{{ messages }}",
    "private item": "{% set ns = namespace(a=1) %}{% set ns._a = 1 %}{{ messages }}",
    "classes": "{{ messages.__class__.__mro__ }}{{ ''.__class__ }}",
    "globals": "{{ raise_exception.__globals__ }}{{ namespace.__init__.__globals__ }}",
    "changes": "{% set _ = messages.append(1) %}{{ messages }}",
    "keys": "{{ messages[0].update({'a': 1}) }}{{ messages[0].pop('role') }}{{ messages }}",
    "long": "{% for i in range(1000000) %}{{ i }}{% endfor %}",
    "format": "{{ '{0.__class__}'.format(messages) }}{{ '%s' % messages[0].role }}",
    "broken": "{% for m in messages %}",
    "includes": "{% include 'x' %}",
}
