"""`gristmill serve`: the tokenizers a user names, over HTTP until a signal comes.

Tested in `test_http.py`, which starts the command.
"""

import argparse
import contextlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from gristmill import EMBEDDED, Tokenizer
from gristmill.cli.jobs import source_of
from gristmill.cli.messages import DONE, USAGE, JobError, printable

if TYPE_CHECKING:
    from gristmill.serve.http.endpoints import Model

# What a tokenizer may be called in requests.
NAME = re.compile(r"[\w./:@+-]{1,100}", re.ASCII)
# Files whose name says nothing of what they are: the folder's does.
NAMELESS = ("tokenizer", "tekken", "tiktoken")


def serve(options: argparse.Namespace) -> int:
    """Load all, listen, and say where."""
    try:
        from gristmill.serve.http import server
        from gristmill.serve.http.app import Limits, Service
        from gristmill.serve.http.endpoints import House, Model, max_model_len
    except ImportError as error:
        if error.name not in ("uvicorn", "httptools", "jinja2"):
            raise
        raise JobError(
            f"the service needs the package {error.name}: pip install 'gristmill[http]'"
        ) from None

    models: dict[str, Model] = {}
    for argument in options.tokenizers:
        name, source = named(argument)
        if name in models:
            raise JobError(f"two tokenizers are named {name!r}; give one another: NAME={source}")
        found = source_of(source)
        length = None if found in EMBEDDED else max_model_len(found)
        models[name] = warmed(Model(name, Tokenizer(found), length))
    house = House(models, options.max_batch, options.allow_request_templates)
    limits = Limits(
        body=options.max_body,
        held=max(Limits.held, 4 * options.max_body),
        running=options.max_requests,
        arrival=options.read_timeout,
        work=options.timeout,
    )
    try:
        listener = server.listen(options.host, options.port)
    except OSError as error:
        raise JobError(
            f"cannot listen at {options.host} port {options.port}: {error.strerror or error}"
        ) from None
    host = f"[{options.host}]" if ":" in options.host else options.host
    print(
        f"gristmill serves {printable(', '.join(models))} at "
        f"http://{host}:{listener.getsockname()[1]}/",
        flush=True,
    )
    patience = server.Patience(head=options.read_timeout, answer=3 * options.read_timeout)
    service = Service(house, limits, threads=options.threads)
    server.run(service, listener, patience=patience, access_log=options.access_log)
    return DONE


def warmed(model: "Model") -> "Model":
    """Load what the first request would load."""
    template = model.tokenizer.chat_template
    if template is not None:
        # A template may refuse this chat, but is compiled by then.
        with contextlib.suppress(Exception):
            template.render([{"role": "user", "content": "Hello"}], add_generation_prompt=True)
    model.tokenizer.count("Hello")
    return model


def named(argument: str) -> tuple[str, str]:
    """A tokenizer's name and where it is. Where no name was given, its own is taken."""
    name, equals, source = argument.partition("=")
    if equals and not os.path.exists(argument):
        if not NAME.fullmatch(name) or not source:
            raise JobError(f"{argument!r} is not NAME=TOKENIZER", USAGE)
        return name, source
    path = Path(argument)
    if argument not in EMBEDDED and path.exists():
        path = path.resolve()
        stem = path.name if path.is_dir() else path.stem
        name = path.parent.name if stem in NAMELESS and not path.is_dir() else stem
    else:
        name = argument
    if not NAME.fullmatch(name):
        raise JobError(f"{argument!r} needs a name for requests: NAME={argument}", USAGE)
    return name, argument
