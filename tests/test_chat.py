"""Chat templates: where they come from, which is taken, what they may do, and who may share them.

What they render is compared with transformers in `test_oracle_chat.py`.
"""

import json
import pickle
import sys
import threading
from pathlib import Path
from typing import Any

import chats
import gristmill
import pytest
import tiny
from gristmill import Tokenizer
from gristmill.chat import ChatTemplate

SIMPLE = (
    "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}{{ eos_token }}{% endfor %}"
)
SETTINGS = {
    "bos_token": "<s>",
    "eos_token": {"__type": "AddedToken", "content": "</s>", "lstrip": False},
    "unk_token": None,
    "model_max_length": 7,
    "extra_special_tokens": {"image_token": "<img>"},
}
HI = [{"role": "user", "content": "Hi"}]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tokenizer with a template in its settings."""
    tokens = [
        tiny.added_token(406 + n, token, special=True) for n, token in enumerate(("<s>", "</s>"))
    ]
    (tmp_path / "tokenizer.json").write_bytes(tiny.byte_level_json(added_tokens=tokens))
    settings(tmp_path, chat_template=SIMPLE)
    return tmp_path


def settings(folder: Path, **values: Any) -> None:
    (folder / "tokenizer_config.json").write_text(json.dumps(SETTINGS | values), encoding="utf-8")


def test_beside_the_tokenizer(folder: Path) -> None:
    for source in (folder, folder / "tokenizer.json", str(folder)):
        tok = Tokenizer(source)
        template = tok.chat_template
        assert template is not None
        assert template is tok.chat_template
        tokens = {"bos_token": "<s>", "eos_token": "</s>", "image_token": "<img>"}
        assert template.special_tokens == tokens
        ids = tok.encode_chat(HI)
        assert tok.decode(ids) == "<s>user: Hi</s>"
        # One token at the start, and none that the post-processor would put there.
        assert [tok.id_to_token(id) for id in ids][:1] == ["<s>"]
        assert ids.count(tok.special_tokens["<s>"]) == 1


def test_files_of_templates_win(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text("file {{ messages[0].content }}")
    template = ChatTemplate.load(folder)
    assert template is not None
    assert template.render(HI) == "file Hi"
    (folder / "chat_templates").mkdir()
    (folder / "chat_templates" / "tool_use.jinja").write_text("with tools {{ tools | length }}")
    template = ChatTemplate.load(folder)
    assert template is not None
    assert template.render(HI) == "file Hi"
    assert template.render(HI, tools=[]) == "with tools 0"
    assert template.render(HI, name="tool_use", tools=chats.TOOLS) == "with tools 1"
    assert repr(template) == "<gristmill.ChatTemplate: default, tool_use>"


def test_several_in_the_settings(folder: Path) -> None:
    entries = [{"name": "rag", "template": "rag"}, {"name": "other", "template": "other"}]
    settings(folder, chat_template=entries)
    tok = Tokenizer(folder)
    assert tok.encode_chat(HI, template="rag") == tok.encode("rag")
    with pytest.raises(ValueError, match="name one of: other, rag"):
        tok.encode_chat(HI)


def test_none(folder: Path) -> None:
    settings(folder)
    tok = Tokenizer(folder)
    assert tok.chat_template is None
    with pytest.raises(ValueError, match="no chat template"):
        tok.encode_chat(HI)
    assert tok.encode_chat(HI, template="{{ messages[0].content }}") == tok.encode("Hi")
    assert Tokenizer("gpt2").chat_template is None
    assert Tokenizer.from_bytes((folder / "tokenizer.json").read_bytes()).chat_template is None


def test_a_broken_settings_file_is_an_error_of_the_template_alone(folder: Path) -> None:
    (folder / "tokenizer_config.json").write_text("{")
    tok = Tokenizer(folder)
    assert tok.encode("Hi")
    with pytest.raises(ValueError, match="Expecting"):
        _ = tok.chat_template


def test_pickled(folder: Path) -> None:
    tok = pickle.loads(pickle.dumps(Tokenizer(folder)))
    assert tok.decode(tok.encode_chat(HI)) == "<s>user: Hi</s>"
    template = pickle.loads(pickle.dumps(tok.chat_template))
    assert template.render(HI) == "<s>user: Hi</s>"


def test_special_tokens_written_by_a_user_are_parsed_as_by_transformers(folder: Path) -> None:
    tok = Tokenizer(folder)
    ids = tok.encode_chat([{"role": "user", "content": "</s>"}])
    assert ids.count(tok.special_tokens["</s>"]) == 2


def test_the_caller_s_messages_are_left_alone() -> None:
    message = {"role": "assistant", "content": [{"type": "text", "text": "a"}], "thinking": "b"}
    before = json.dumps(message)
    template = ChatTemplate("{{ messages[0].content[0].text }}{{ messages[0].reasoning_content }}")
    assert template.render([message]) == "ab"
    template = ChatTemplate("{{ messages[0].content[0].text }}")
    assert template.render([message], continue_final_message=True) == "a"
    assert json.dumps(message) == before


@pytest.mark.parametrize("name", ["classes", "globals", "changes", "keys", "long", "private"])
def test_a_template_stays_in_its_sandbox(name: str) -> None:
    import jinja2

    template = ChatTemplate(chats.TEMPLATES[name])
    with pytest.raises((jinja2.exceptions.SecurityError, OverflowError, jinja2.UndefinedError)):
        template.render(HI)


def test_what_a_user_writes_is_no_template() -> None:
    for text in ("{{ 7 * 7 }}", "{% raise %}", "{{ ''.__class__ }}"):
        assert ChatTemplate("{{ messages[0].content }}").render([{"content": text}]) == text


def test_functions_are_no_tools() -> None:
    def weather(city: str) -> str:
        """The weather."""
        return city

    with pytest.raises(ValueError, match="schema"):
        ChatTemplate(SIMPLE).render(HI, tools=[weather])  # type: ignore[list-item]


def test_a_continued_message_has_no_mask() -> None:
    tok = Tokenizer("gpt2")
    with pytest.raises(ValueError, match="go together"):
        tok.encode_chat(
            HI,
            template=SIMPLE,
            return_assistant_mask=True,
            continue_final_message=True,  # type: ignore[call-overload]
        )


def test_threads_share_a_template() -> None:
    template = ChatTemplate(chats.TEMPLATES["marked"])
    found: dict[int, set[str]] = {}

    def work(number: int) -> None:
        said = f"{number}" * (number + 1)
        chat = [
            {"role": "user", "content": "x" * number},
            {"role": "assistant", "content": said},
        ] * 20
        texts = set()
        for _ in range(50):
            text, spans = template.render_with_spans(chat)
            texts |= {text[start:end] for start, end in spans}
        found[number] = texts

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: {f"{number}" * (number + 1)} for number in range(6)}


def test_without_jinja2(monkeypatch: pytest.MonkeyPatch) -> None:
    from gristmill import chat

    chat._environment.cache_clear()
    chat._compiled.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    try:
        with pytest.raises(ImportError, match=r"pip install 'gristmill\[chat\]'"):
            ChatTemplate("x").render(HI)
    finally:
        monkeypatch.undo()
        chat._environment.cache_clear()


def test_the_name_is_public() -> None:
    assert gristmill.ChatTemplate is ChatTemplate
