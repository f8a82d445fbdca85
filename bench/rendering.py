"""Measure chats against transformers, in one process and one run, ids checked equal first.

    bench/rendering.py FOLDER [--runs N]

FOLDER holds tokenizer.json and its chat template. Each number is the median of microseconds of CPU
time for one chat, rendered and encoded; no two chats are the same, and the libraries take turns.
"""

import argparse
import pathlib
import platform
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import gristmill

SENTENCE = "The miller's daughter carried the flour to the bakers; they'd been baking since four. "


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=100)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    import transformers

    tok = gristmill.Tokenizer(options.folder)
    template = tok.chat_template
    assert template is not None
    library = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(options.folder / "tokenizer.json"), **template.special_tokens
    )
    arms: dict[str, Callable[[Any], Any]] = {
        "gristmill": lambda chat: tok.encode_chat(chat, add_generation_prompt=True),
        "transformers": lambda chat: library.apply_chat_template(
            chat,
            chat_template=template.source(),
            add_generation_prompt=True,
            tokenize=True,
            return_dict=False,
        ),
    }
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}")
    print(f"gristmill {gristmill.__version__}, transformers {transformers.__version__}")
    for sentences in (1, 4, 16):
        times: dict[str, list[float]] = {arm: [] for arm in arms}
        for run in range(options.runs):
            chat = [
                {
                    "role": ("user", "assistant")[at % 2],
                    "content": f"{run} {at} {SENTENCE * sentences}",
                }
                for at in range(9)
            ]
            chat.insert(0, {"role": "system", "content": f"Answer {run}."})
            found = []
            for arm, encode in arms.items():
                began = time.process_time()
                found.append(encode(chat))
                times[arm].append((time.process_time() - began) * 1e6)
            assert found[0] == found[1]
        medians = {arm: statistics.median(values) for arm, values in times.items()}
        ratio = medians["transformers"] / medians["gristmill"]
        print(
            f"10 messages, {len(found[0])} ids:",
            ", ".join(f"{arm} {median:.1f} us" for arm, median in medians.items()),
            f"({ratio:.1f}x)",
        )


if __name__ == "__main__":
    main()
