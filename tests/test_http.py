"""`gristmill serve`, as clients see it, good ones and bad ones."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any

import pytest
import tiny
from gristmill import ChatTemplate, Tokenizer
from gristmill.serve.http import endpoints
from gristmill.serve.http.app import INLINE, Limits, Service
from gristmill.serve.http.endpoints import ENDPOINTS, Answer, House, Model, Values
from gristmill.serve.http.openapi import description
from gristmill.serve.http.requests import DEEPEST, Problem
from prometheus_client.parser import text_string_to_metric_families
from served import Served, serving

TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'wrong' %}"
    "{{ raise_exception('no such role') }}{% endif %}<|{{ m.role }}|>{{ m.content }}\n"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}{{ mood }}"
)
CHAT = [{"role": "user", "content": "Grüße, 水車"}]
MAX_BODY = 256 * 1024


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer with a chat template and settings."""
    folder = tmp_path_factory.mktemp("served") / "small"
    folder.mkdir()
    (folder / "tokenizer.json").write_bytes(tiny.byte_level_json())
    settings = {
        "chat_template": TEMPLATE,
        "bos_token": "<|endoftext|>",
        "model_max_length": 4096,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


@pytest.fixture(scope="module")
def service(folder: Path) -> Iterator[Served]:
    arguments = ["-t", "gpt2", "-t", f"chatty={folder}", "--max-body", "256KB"]
    with serving(*arguments, "--read-timeout", "1", "--max-batch", "10") as served:
        yield served


class TestAnswers:
    def test_tokenize(self, service: Served, gpt2: Tokenizer) -> None:
        for text in ("", "Hello wörld 🦙", "a<|endoftext|>b"):
            ids = gpt2.encode(text, special="parse", add_special_tokens=True)
            found = service.post("/tokenize", prompt=text)
            assert found == {
                "count": len(ids),
                "max_model_len": None,
                "tokens": ids,
                "token_strs": None,
            }
        found = service.post("/v1/tokenize", prompt="a<|endoftext|>", special="text")
        assert found["tokens"] == gpt2.encode("a<|endoftext|>")
        found = service.post(
            "/tokenize", model="gpt2", prompt="Hello wörld", return_token_strs=True
        )
        assert found["token_strs"] == [gpt2.id_to_token(id) for id in found["tokens"]]

    def test_long_lists_are_whole(self, service: Served, gpt2: Tokenizer) -> None:
        """Lists longer than what is written at a time, and bodies that go to a thread."""
        for words in (endpoints.PART - 1, endpoints.PART, endpoints.PART + 1, 3 * endpoints.PART):
            text = "one" + " two" * (words - 1)
            found = service.post("/tokenize", prompt=text)
            assert found["tokens"] == gpt2.encode(text)
            assert found["count"] == words
            assert service.post("/detokenize", tokens=found["tokens"]) == {"prompt": text}

    def test_chat(self, service: Served, folder: Path) -> None:
        tok = Tokenizer(folder)
        for options, generation in (({}, True), ({"add_generation_prompt": False}, False)):
            found = service.post("/tokenize", model="chatty", messages=CHAT, **options)
            expected = tok.encode_chat(CHAT, add_generation_prompt=generation)
            assert found["tokens"] == expected
            assert found["max_model_len"] == 4096
            same = service.post("/v1/chat/tokenize", model="chatty", messages=CHAT, **options)
            assert same == found
            number = service.post("/v1/chat/count", model="chatty", messages=CHAT, **options)
            assert number == {"count": len(expected), "max_model_len": 4096}
        kwargs = {"mood": "merry"}
        found = service.post(
            "/tokenize", model="chatty", messages=CHAT, chat_template_kwargs=kwargs
        )
        assert found["tokens"] == tok.encode_chat(CHAT, add_generation_prompt=True, mood="merry")

    def test_count_and_batches(self, service: Served, gpt2: Tokenizer) -> None:
        texts = ["one", "", "two 🦙 three", "x" * 1000]
        lists = gpt2.encode_batch(texts)
        counts = [len(ids) for ids in lists]
        for text, number in zip(texts, counts, strict=True):
            assert service.post("/count", prompt=text)["count"] == number
        assert service.post("/tokenize/batch", prompts=texts) == {
            "counts": counts,
            "max_model_len": None,
            "tokens": lists,
        }
        assert service.post("/count/batch", prompts=texts)["counts"] == counts
        assert service.post("/detokenize/batch", tokens=lists) == {"prompts": texts}
        assert service.post("/tokenize/batch", prompts=[])["tokens"] == []

    def test_detokenize(self, service: Served, gpt2: Tokenizer) -> None:
        ids = [*gpt2.encode("a 🦙"), 50256]
        assert service.post("/detokenize", tokens=ids) == {"prompt": "a 🦙<|endoftext|>"}
        found = service.post("/v1/detokenize", tokens=ids, skip_special_tokens=True)
        assert found == {"prompt": "a 🦙"}
        assert service.post("/detokenize", tokens=ids[:2]) == {"prompt": gpt2.decode(ids[:2])}

    def test_inspect(self, service: Served, gpt2: Tokenizer) -> None:
        text = "a 🦙<|endoftext|>"
        ids, offsets = gpt2.encode_with_offsets(text, special="parse")
        assert service.post("/inspect", prompt=text, limit=4) == {
            "count": len(ids),
            "max_model_len": None,
            "characters": len(text),
            "bytes": len(text.encode()),
            "text": text,
            "tokens": ids[:4],
            "token_strs": [gpt2.id_to_token(id) for id in ids[:4]],
            "token_bytes": [gpt2.token_bytes(id).hex() for id in ids[:4]],
            "offsets": [list(pair) for pair in offsets[:4]],
            "special": [False] * 4,
        }
        found = service.post("/inspect", prompt=text)
        assert found["special"] == [False] * (len(ids) - 1) + [True]
        found = service.post("/inspect", model="chatty", messages=CHAT)
        assert found["text"].endswith("<|user|>Grüße, 水車\n<|assistant|>")

    def test_what_is_served(self, service: Served) -> None:
        assert json.loads(service.ask("GET", "/health")[2]) == {"status": "ok"}
        found = json.loads(service.ask("GET", "/tokenizers")[2])["tokenizers"]
        assert [one["name"] for one in found] == ["gpt2", "chatty"]
        assert [one["has_chat_template"] for one in found] == [False, True]
        assert [one["max_model_len"] for one in found] == [None, 4096]
        assert found[0]["special_tokens"] == {"<|endoftext|>": 50256}
        status, headers, body = service.ask("HEAD", "/health")
        assert (status, headers["content-length"], body) == (200, "15", b"")

    def test_the_page_takes_nothing_from_elsewhere(self, service: Served) -> None:
        for path in ("/", "/playground.css", "/playground.js"):
            status, headers, body = service.ask("GET", path)
            assert status == 200
            assert "default-src 'none'" in headers["content-security-policy"]
            text = body.decode().replace("http://www.w3.org/2000/svg", "")
            assert "http://" not in text
            assert "https://" not in text
            assert " style=" not in text
            assert " onclick=" not in text

    def test_templates_stay_in_the_sandbox(self, service: Served, folder: Path) -> None:
        """What stands in a message is text; what comes as a value is data."""
        tok = Tokenizer(folder)
        for content in (
            "{{ 7 * 7 }}",
            "{% for x in ().__class__.__mro__ %}{{ x }}{% endfor %}",
            "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
            {"__class__": "x", "format": "{0.__class__}"},
        ):
            chat = [{"role": "user", "content": content}]
            found = service.post("/inspect", model="chatty", messages=chat)
            assert found["text"] == f"<|endoftext|><|user|>{content}\n<|assistant|>"
            assert found["tokens"] == tok.encode_chat(chat, add_generation_prompt=True)

    def test_requests_bring_templates_only_where_allowed(self, folder: Path) -> None:
        template = "{{ messages[0].content }}!{{ bos_token }}"
        with serving("-t", f"chatty={folder}", "--allow-request-templates") as service:
            found = service.post("/inspect", messages=CHAT, chat_template=template)
            assert found["text"] == "Grüße, 水車!<|endoftext|>"
            for attack in (
                "{{ ''.__class__.__mro__[1].__subclasses__() }}",
                "{{ messages.append(1) }}",
                "{{ cycler.__init__.__globals__ }}",
                "{% for x in range(10**9) %}{% endfor %}",
                "{{ 'x' * 10**12 }}",
                "{% broken",
            ):
                body = {"messages": CHAT, "chat_template": attack}
                status, _, data = service.ask("POST", "/tokenize", body)
                assert (status, b"refuses this chat" in data) == (422, True), attack


BAD: dict[str, tuple[int, str, Any]] = {
    "empty": (400, "/tokenize", b""),
    "no JSON": (400, "/tokenize", b'{"prompt": "a"'),
    "trailing": (400, "/tokenize", b'{"prompt": "a"} x'),
    "not UTF-8": (400, "/tokenize", b'{"prompt": "\xff"}'),
    "UTF-16": (400, "/tokenize", '{"prompt": "a"}'.encode("utf-16")),
    "an encoded surrogate": (400, "/tokenize", b'{"prompt": "\xed\xa0\x80"}'),
    "a raw newline": (400, "/tokenize", b'{"prompt": "a\nb"}'),
    "NaN": (400, "/detokenize", b'{"tokens": [NaN]}'),
    "a number of 10,000 digits": (400, "/detokenize", b'{"tokens": [' + b"9" * 10_000 + b"]}"),
    "100,000 brackets": (400, "/tokenize", b"[" * 100_000),
    "100,000 objects": (400, "/tokenize", b'{"a":' * 40_000),
    "a deep message": (
        400,
        "/tokenize",
        b'{"messages":[{"role":"user","content":' + b"[" * 500 + b"]" * 500 + b"}]}",
    ),
    "a list": (422, "/tokenize", []),
    "null": (422, "/tokenize", b"null"),
    "nothing": (422, "/tokenize", {}),
    "both": (422, "/tokenize", {"prompt": "a", "messages": CHAT}),
    "a number": (422, "/tokenize", {"prompt": 7}),
    "a list of prompts": (422, "/tokenize", {"prompt": ["a"]}),
    "half a surrogate pair": (422, "/tokenize", b'{"prompt": "a\\ud800"}'),
    "the other half, inspected": (422, "/inspect", b'{"prompt": "a\\udc00"}'),
    "a surrogate in a batch": (422, "/tokenize/batch", b'{"prompts": ["a", "\\ud800"]}'),
    "a surrogate in a chat": (
        422,
        "/tokenize",
        b'{"model":"chatty","messages":[{"role":"user","content":"\\ud800"}]}',
    ),
    "a surrogate in a name": (404, "/tokenize", b'{"model":"\\ud800","prompt":"a"}'),
    "a surrogate in a field": (422, "/tokenize", b'{"\\ud800":1,"prompt":"a"}'),
    "an unknown field": (422, "/tokenize", {"prompt": "a", "add_special_token": False}),
    "a word for true": (422, "/tokenize", {"prompt": "a", "add_special_tokens": "yes"}),
    "an unknown choice": (422, "/tokenize", {"prompt": "a", "special": "ignore"}),
    "a forbidden special": (422, "/tokenize", {"prompt": "<|endoftext|>", "special": "forbid"}),
    "an unknown tokenizer": (404, "/tokenize", {"model": "gpt3", "prompt": "a"}),
    "an unknown id": (422, "/detokenize", {"tokens": [50257]}),
    "a negative id": (422, "/detokenize", {"tokens": [-1]}),
    "a huge id": (422, "/detokenize", {"tokens": [2**32]}),
    "a larger id": (422, "/detokenize", {"tokens": [2**70]}),
    "a bool for an id": (422, "/detokenize", {"tokens": [True]}),
    "a float for an id": (422, "/detokenize", {"tokens": [1.5]}),
    "a string for an id": (422, "/detokenize", {"tokens": ["1"]}),
    "an unknown id in a batch": (422, "/detokenize/batch", {"tokens": [[1], [99_999]]}),
    "a large batch": (413, "/tokenize/batch", {"prompts": ["a"] * 11}),
    "a large batch of ids": (413, "/detokenize/batch", {"tokens": [[1]] * 11}),
    "no messages": (422, "/tokenize", {"model": "chatty", "messages": []}),
    "no role": (422, "/tokenize", {"model": "chatty", "messages": [{"content": "a"}]}),
    "no template": (422, "/tokenize", {"messages": CHAT}),
    "a refused role": (
        422,
        "/tokenize",
        {"model": "chatty", "messages": [{"role": "wrong", "content": "a"}]},
    ),
    "a reserved value": (
        422,
        "/tokenize",
        {"model": "chatty", "messages": CHAT, "chat_template_kwargs": {"spans": []}},
    ),
    "a template": (
        422,
        "/tokenize",
        {"model": "chatty", "messages": CHAT, "chat_template": "{{ 1 }}"},
    ),
    "both ends": (
        422,
        "/tokenize",
        {"model": "chatty", "messages": CHAT, "continue_final_message": True},
    ),
    "a limit that is none": (422, "/inspect", {"prompt": "a", "limit": -1}),
    "a large body": (413, "/tokenize", {"prompt": "a" * MAX_BODY}),
}


class TestRefusals:
    @pytest.mark.parametrize("name", BAD)
    def test_bad_bodies(self, service: Served, name: str) -> None:
        status, path, body = BAD[name]
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        found, headers, answer = service.ask("POST", path, data)
        assert found == status, answer
        error = json.loads(answer)["error"]
        assert error["code"] == status
        assert 0 < len(error["message"]) < 1000
        assert headers["content-type"] == "application/json"
        # Nothing else is disturbed.
        assert service.post("/count", prompt="one two")["count"] == 2

    def test_paths_and_methods(self, service: Served) -> None:
        for method, path, status, allow in (
            ("GET", "/nothing", 404, None),
            ("POST", "/nothing", 404, None),
            ("GET", "/playground.jsx", 404, None),
            ("GET", "/../app.py", 404, None),
            ("GET", "/%2e%2e/app.py", 404, None),
            ("GET", "/tokenize", 405, "POST"),
            ("DELETE", "/tokenize", 405, "POST"),
            ("POST", "/health", 405, "GET, HEAD"),
            ("OPTIONS", "/", 405, "GET, HEAD"),
        ):
            found, headers, _ = service.ask(method, path, b"{}" if method == "POST" else None)
            assert (found, headers["allow"]) == (status, allow)

    def test_kinds_of_content(self, service: Served) -> None:
        for headers, status in (
            ({"content-type": "text/plain"}, 415),
            ({"content-type": "application/x-www-form-urlencoded"}, 415),
            ({"content-encoding": "gzip"}, 415),
            ({"content-type": "Application/JSON; charset=utf-8"}, 200),
        ):
            assert service.ask("POST", "/count", b'{"prompt":"a"}', headers)[0] == status


HEAD = b"POST /count HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"


def received(connection: socket.socket) -> bytes:
    """All that comes until the connection ends."""
    found = b""
    while data := connection.recv(65_536):
        found += data
    return found


class TestConnections:
    @pytest.mark.parametrize(
        ("sent", "status"),
        [
            (b"", b"408"),
            (b"POST /count HT", b"408"),
            (HEAD, b"408"),
            (HEAD + b"content-length: 100\r\n\r\n{", b"408"),
            (HEAD + b"transfer-encoding: chunked\r\n\r\n5\r\n{", b"408"),
            (b"nonsense\r\n\r\n", b"400"),
            (HEAD + b"content-length: -1\r\n\r\n", b"400"),
            (HEAD + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n{}", b"400"),
            (HEAD + b"transfer-encoding: chunked\r\n\r\nxyz\r\n", b"400"),
            (HEAD + b"x: " + b"y" * 100_000, b"431"),
            (HEAD + b"x: y\r\n" * 30_000, b"431"),
            (HEAD + b"content-length: 99999999999\r\n\r\n", b"413"),
        ],
    )
    def test_slow_and_broken(self, service: Served, sent: bytes, status: bytes) -> None:
        with service.connect() as connection:
            connection.sendall(sent)
            assert service.post("/count", prompt="one two")["count"] == 2
            found = received(connection)
        assert found.startswith(b"HTTP/1.1 " + status), found
        assert b"connection: close" in found.lower()

    def test_a_byte_now_and_then_is_too_slow(self, service: Served) -> None:
        """Both in the head and in the body."""
        for begin in (b"GET /", HEAD + b"content-length: 1000\r\n\r\n"):
            with service.connect() as connection:
                connection.sendall(begin)
                began = time.monotonic()
                connection.settimeout(0.2)
                found = b""
                while not found and time.monotonic() - began < 15:
                    try:
                        connection.sendall(b"a" if begin == b"GET /" else b" ")
                        found = connection.recv(1000)
                    except TimeoutError:
                        continue
                    except OSError:
                        break
                assert found.startswith(b"HTTP/1.1 408")

    def test_a_body_that_grows_too_large(self, service: Served) -> None:
        """Its length was not declared; the client sees why, not a broken connection."""
        with service.connect() as connection:
            connection.sendall(HEAD + b"transfer-encoding: chunked\r\n\r\n")
            for _ in range(64):
                connection.sendall(b"10000\r\n" + b" " * 65_536 + b"\r\n")
            connection.sendall(b"0\r\n\r\n")
            assert received(connection).startswith(b"HTTP/1.1 413")

    def test_requests_behind_each_other(self, service: Served) -> None:
        bodies = [json.dumps({"prompt": "one" + " two" * at}).encode() for at in range(50)]
        sent = [HEAD + b"content-length: %d\r\n\r\n" % len(body) + body for body in bodies]
        with service.connect() as connection:
            connection.sendall(
                b"".join(sent) + b"GET /health HTTP/1.1\r\nconnection: close\r\n\r\n"
            )
            found = received(connection)
        assert found.count(b"HTTP/1.1 200") == 51
        for at in range(50):
            assert b'{"count":%d,' % (at + 1) in found

    def test_what_is_not_taken_is_dropped(self, service: Served) -> None:
        """A client that asks for much and does not read it is let go."""
        body = json.dumps({"prompt": "a b " * 50_000, "limit": 1_000_000}).encode()
        head = HEAD.replace(b"/count", b"/inspect")
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", service.port))
            connection.settimeout(30)
            connection.sendall(head + b"content-length: %d\r\n\r\n" % len(body) + body)
            # Longer than the service waits, which is three seconds.
            time.sleep(4)
            size = 0
            try:
                while data := connection.recv(65_536):
                    size += len(data)
            except OSError:
                pass
        assert size < 3_000_000


class TestMetrics:
    def test_they_count(self, folder: Path) -> None:
        with serving("-t", f"odd={folder}") as service:
            service.post("/tokenize", prompt="one two")
            tokens = service.post("/tokenize", prompt="one two" * 5000)["count"]
            service.post("/detokenize", tokens=[1, 2, 3])
            assert service.ask("POST", "/tokenize", b"{")[0] == 400
            assert service.ask("GET", '/what"ever')[0] == 404
            status, headers, body = service.ask("GET", "/metrics")
            assert (status, headers.get_content_type()) == (200, "text/plain")
            found = {
                (sample.name, *sample.labels.values()): sample.value
                for family in text_string_to_metric_families(body.decode())
                for sample in family.samples
            }
            few = service.post("/count", prompt="one two")["count"]
        assert found["gristmill_requests_total", "/tokenize", "200"] == 2
        assert found["gristmill_requests_total", "/tokenize", "400"] == 1
        assert found["gristmill_requests_total", "other", "404"] == 1
        assert found["gristmill_request_seconds_count", "/tokenize"] == 3
        assert found["gristmill_request_seconds_bucket", "/tokenize", "+Inf"] == 3
        assert found["gristmill_tokens_total", "odd", "encoded"] == few + tokens
        assert found["gristmill_tokens_total", "odd", "decoded"] == 3
        assert found["gristmill_requests_running",] == 1
        assert found["process_cpu_seconds_total",] > 0
        assert len([key for key in found if key[0] == "gristmill_build_info"]) == 1


class TestDescription:
    def test_it_names_all_there_is(self, service: Served) -> None:
        found = json.loads(service.ask("GET", "/openapi.json")[2])
        assert found["openapi"] == "3.1.0"
        posts = {path for path, item in found["paths"].items() if "post" in item}
        assert posts == set(ENDPOINTS)
        for path in found["paths"].keys() - posts:
            assert service.ask("GET", path)[0] == 200
        text = json.dumps(found)
        for part in text.split('"$ref": "')[1:]:
            name = part.split('"')[0].removeprefix("#/components/schemas/")
            assert name in found["components"]["schemas"]

    def test_fields_of_vllm(self) -> None:
        """What its clients send, it describes."""
        found = description(House({}))["components"]["schemas"]
        prompt = {"model", "prompt", "add_special_tokens", "return_token_strs"}
        assert prompt <= found["TokenizePrompt"]["properties"].keys()
        chat = {"messages", "add_generation_prompt", "continue_final_message", "tools"}
        chat |= {"chat_template", "chat_template_kwargs", "add_special_tokens"}
        assert chat <= found["TokenizeChat"]["properties"].keys()


class TestTheEnd:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_what_is_under_way_is_finished(self, number: signal.Signals) -> None:
        body = json.dumps({"prompt": "one two"}).encode()
        with serving("-t", "gpt2") as service, service.connect() as idle:
            with service.connect() as connection:
                connection.sendall(HEAD + b"content-length: %d\r\n\r\n" % len(body) + body[:5])
                # The request is under way once the next one has an answer.
                service.ask("GET", "/health")
                service.process.send_signal(number)
                assert received(idle) == b""
                with pytest.raises(OSError, match=r".*"):
                    service.ask("GET", "/health")
                connection.sendall(body[5:])
                found = received(connection)
            assert found.startswith(b"HTTP/1.1 200")
            assert found.endswith(b'{"count":2,"max_model_len":null}')
            assert service.process.wait(20) == 0

    def test_usage(self, tmp_path: Path, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            busy = str(taken.getsockname()[1])
            for arguments, code, message in (
                ([], 2, "required: -t"),
                (["-t", "gpt3"], 1, "no tokenizer 'gpt3'"),
                (["-t", "gpt2", "-t", "gpt2"], 1, "two tokenizers are named 'gpt2'"),
                (["-t", "a b=gpt2"], 2, "is not NAME=TOKENIZER"),
                (["-t", "gpt2", "--port", "70000"], 2, "65535"),
                (["-t", "gpt2", "--max-body", "many"], 2, "is not a size"),
                (["-t", "gpt2", "--port", busy], 1, "cannot listen at 127.0.0.1"),
            ):
                done = subprocess.run(
                    [sys.executable, "-m", "gristmill", "serve", *arguments],
                    capture_output=True,
                    text=True,
                    timeout=60,
                )
                assert (done.returncode, message in done.stderr) == (code, True), done.stderr

    def test_names(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from gristmill.cli.serving import named

        assert named("gpt2") == ("gpt2", "gpt2")
        assert named("a/b=gpt2") == ("a/b", "gpt2")
        assert named(str(folder)) == ("small", str(folder))
        file = str(folder / "tokenizer.json")
        assert named(file) == ("small", file)
        assert named("org/name") == ("org/name", "org/name")
        monkeypatch.chdir(folder.parent)
        (folder.parent / "x=y").mkdir(exist_ok=True)
        assert named("n=x=y") == ("n", "x=y")


async def asked(service: Service, path: str, *chunks: bytes, length: int | None = None) -> Any:
    """The status and the body of one request to the application itself."""
    messages = [
        {"type": "http.request", "body": chunk, "more_body": at + 1 < len(chunks)}
        for at, chunk in enumerate(chunks)
    ]
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        await asyncio.sleep(0)
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    headers = [(b"content-type", b"application/json")]
    method = "POST" if path in ENDPOINTS else "GET"
    scope = {"type": "http", "method": method, "path": path, "headers": headers}
    await service(scope, receive, send)
    return sent[0]["status"], b"".join(part["body"] for part in sent[1:])


class TestLimits:
    """Of the application, by an endpoint that waits until it is told to go on."""

    @pytest.fixture
    def gate(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
        gate = threading.Event()

        def work(house: House, values: Values) -> Answer:
            assert gate.wait(20)
            return Answer({"count": 1, "max_model_len": None}, "gpt2")

        slow = endpoints.Endpoint("", ENDPOINTS["/count"].forms, work)
        monkeypatch.setitem(ENDPOINTS, "/slow", slow)
        yield gate
        gate.set()

    def body(self, size: int = INLINE + 100) -> bytes:
        return json.dumps({"prompt": "a" * size}).encode()

    def made(self, gpt2: Tokenizer, limits: Limits) -> Service:
        return Service(House({"gpt2": Model("gpt2", gpt2)}), limits, threads=2)

    def test_long_work_disturbs_nobody(self, gpt2: Tokenizer, gate: threading.Event) -> None:
        service = self.made(gpt2, Limits())

        async def run() -> None:
            slow = [asyncio.ensure_future(asked(service, "/slow", self.body())) for _ in range(2)]
            await asyncio.sleep(0.05)
            assert (await asked(service, "/health"))[0] == 200
            assert (await asked(service, "/count", b'{"prompt":"a"}'))[0] == 200
            assert not any(one.done() for one in slow)
            gate.set()
            assert [(await one)[0] for one in slow] == [200, 200]

        asyncio.run(run())
        service.close()

    def test_too_many_requests(self, gpt2: Tokenizer, gate: threading.Event) -> None:
        service = self.made(gpt2, Limits(running=2))

        async def run() -> None:
            slow = [asyncio.ensure_future(asked(service, "/slow", self.body())) for _ in range(2)]
            await asyncio.sleep(0.05)
            assert (await asked(service, "/count", b'{"prompt":"a"}'))[0] == 503
            assert (await asked(service, "/health"))[0] == 200
            gate.set()
            assert [(await one)[0] for one in slow] == [200, 200]
            assert (await asked(service, "/count", b'{"prompt":"a"}'))[0] == 200

        asyncio.run(run())
        service.close()

    def test_too_many_bytes(self, gpt2: Tokenizer, gate: threading.Event) -> None:
        service = self.made(gpt2, Limits(held=3 * INLINE))

        async def run() -> None:
            slow = [
                asyncio.ensure_future(asked(service, "/slow", self.body(), b" ")) for _ in range(2)
            ]
            await asyncio.sleep(0.05)
            assert (await asked(service, "/count", self.body()))[0] == 503
            assert (await asked(service, "/count", b'{"prompt":"a"}'))[0] == 200
            gate.set()
            assert [(await one)[0] for one in slow] == [200, 200]
            assert service._held == 0
            assert (await asked(service, "/count", self.body()))[0] == 200

        asyncio.run(run())
        service.close()

    def test_too_long(self, gpt2: Tokenizer, gate: threading.Event) -> None:
        service = self.made(gpt2, Limits(work=0.05))
        status, body = asyncio.run(asked(service, "/slow", self.body()))
        assert (status, b"0.05 seconds" in body) == (503, True)
        gate.set()
        service.close()

    def test_a_defect_is_a_500_and_tells_no_secrets(
        self, gpt2: Tokenizer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def work(house: House, values: Values) -> Answer:
            raise AssertionError("inner secret")

        broken = endpoints.Endpoint("", ENDPOINTS["/count"].forms, work)
        monkeypatch.setitem(ENDPOINTS, "/broken", broken)
        service = self.made(gpt2, Limits())
        status, body = asyncio.run(asked(service, "/broken", b'{"prompt":"a"}'))
        assert (status, b"secret" in body) == (500, False)
        assert "inner secret" in capsys.readouterr().err
        service.close()

    def test_depth(self, gpt2: Tokenizer) -> None:
        """As deep as is allowed is allowed."""
        template = ChatTemplate("{{ messages }}")
        found = {}
        for depth in (DEEPEST - 4, DEEPEST + 1):
            content: Any = "x"
            for _ in range(depth):
                content = [content]
            values = json.dumps({"messages": [{"role": "user", "content": content}]}).encode()
            form = endpoints.COUNT_CHAT
            try:
                read = form.read(json.loads(values))
                assert template.render(read["messages"])
                found[depth] = 200
            except Problem as problem:
                found[depth] = problem.status
        assert found == {DEEPEST - 4: 200, DEEPEST + 1: 400}
