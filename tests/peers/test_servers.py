"""Gristmill inside of vLLM and SGLang, and beside mini-sglang, against their own classes."""

import random
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import pytest
from gristmill import Tokenizer
from gristmill.compat.sglang import decode_batch
from gristmill.compat.tokenizers import of
from gristmill.compat.vllm import detokenizer_class
from gristmill.serve import reference
from gristmill.serve.managers import DetokenizeManager

TEXTS = [
    "Hello, wörld!",
    "水車は小麦を挽く。 Мельница мелет муку, мельник спит. 물레방아. 🙂🎉👩‍🌾",
    "for (int i = 0; i < 10; i++) {    total += weights[i];    }\n\n\n    return total;",
    "The miller's daughter carried the flour to the bakers; they'd been baking since 4:00.",
    "a <|endoftext|> b<|endoftext|><|endoftext|>c",
]


def steps_of(ids: list[int], seed: int) -> list[list[int]]:
    """The ids in steps of one to four."""
    generator, steps = random.Random(seed), []
    while ids:
        size = generator.choice([1, 1, 1, 2, 3, 4])
        steps.append(ids[:size])
        ids = ids[size:]
    return steps


class TestVllm:
    def request(self, prompt: list[int], **options: Any) -> Any:
        """A request, as far as detokenizers look at it."""
        params = {
            "stop": None,
            "min_tokens": 0,
            "include_stop_str_in_output": False,
            "skip_special_tokens": True,
            "spaces_between_special_tokens": True,
        }
        sampling = SimpleNamespace(**(params | options))
        return SimpleNamespace(
            request_id="r", sampling_params=sampling, prompt_token_ids=prompt, prompt_embeds=None
        )

    def run(self, detokenizer: Any, steps: list[list[int]], delta: bool) -> list[Any]:
        """What it gives, step by step, up to a stop."""
        found = []
        for at, step in enumerate(steps):
            stop = detokenizer.update(step, False)
            finished = stop is not None or at + 1 == len(steps)
            found.append((stop, detokenizer.get_next_output_text(finished, delta)))
            if finished:
                break
        return found

    @pytest.mark.parametrize("skip", [False, True])
    @pytest.mark.parametrize("delta", [False, True])
    @pytest.mark.parametrize("include", [False, True])
    @pytest.mark.parametrize("stop", [None, ["to the"], ["麦を", "0; i", "since 4:00."], ["zzz"]])
    def test_as_its_own(
        self, vllm: Any, library: Any, skip: bool, delta: bool, include: bool, stop: Any
    ) -> None:
        """Stop strings, ids and texts."""
        ours_class = detokenizer_class(vllm)
        assert issubclass(ours_class, vllm.FastIncrementalDetokenizer)
        for seed, text in enumerate(TEXTS):
            ids = library.encode(text)
            request = self.request(
                library.encode("Once"),
                stop=stop,
                skip_special_tokens=skip,
                include_stop_str_in_output=include,
                min_tokens=3,
            )
            ours, theirs = (
                ours_class(library, request),
                vllm.FastIncrementalDetokenizer(library, request),
            )
            assert ours._ours is not None
            steps = steps_of(ids, seed)
            found, expected = self.run(ours, steps, delta), self.run(theirs, steps, delta)
            assert [stop for stop, _ in found] == [stop for stop, _ in expected]
            if delta:
                found, expected = ([row[1] for row in rows] for rows in (found, expected))
                found, expected = list(accumulate(found)), list(accumulate(expected))
            else:
                found, expected = ([row[1] for row in rows] for rows in (found, expected))
            # The same text, and never later: vLLM waits for the whole of a token whose last
            # character is not.
            assert found[-1] == expected[-1]
            for now, theirs_now in zip(found, expected, strict=True):
                assert now.startswith(theirs_now)
                assert len(now) - len(theirs_now) <= 8
            assert ours.output_token_ids == theirs.output_token_ids
            assert ours.output_text == theirs.output_text

    def test_stop_ids(self, vllm: Any, library: Any) -> None:
        for include in (False, True):
            request = self.request([], include_stop_str_in_output=include)
            found = []
            for make in (detokenizer_class(vllm), vllm.FastIncrementalDetokenizer):
                detokenizer = make(library, request)
                detokenizer.update(library.encode("one two"), False)
                detokenizer.update([50256], True)
                text = detokenizer.get_next_output_text(True, False)
                found.append((text, detokenizer.output_token_ids))
            assert found[0] == found[1]

    def test_what_was_cut_off_is_flushed(self, vllm: Any, library: Any) -> None:
        """vLLM drops it."""
        ids = library.encode("a 🦙")[:2]
        texts = []
        for make in (detokenizer_class(vllm), vllm.FastIncrementalDetokenizer):
            detokenizer = make(library, self.request([]))
            detokenizer.update(ids, False)
            texts.append(detokenizer.get_next_output_text(True, False))
        assert texts == ["a \ufffd", "a"]
        assert texts[0] == library.decode(ids)

    def test_broken_runs_of_bytes(self, vllm: Any, fallback: Any) -> None:
        """Where tokenizers raises an error and vLLM begins anew, the text is that of the whole."""
        tok = of(fallback._tokenizer)
        ids = [tok.token_to_id(token) for token in ("<0xE4>", "<0xBD>", "▁t", "h", "<0xE4>", "e")]
        assert None not in ids
        known = [id for id in ids if id is not None]
        detokenizer = detokenizer_class(vllm)(fallback, self.request([]))
        for id in known:
            detokenizer.update([id], False)
        assert detokenizer.get_next_output_text(True, False) == tok.decode(known)

    def test_unknown_ids(self, vllm: Any, library: Any) -> None:
        """They give no text, as with vLLM's own."""
        for make in (detokenizer_class(vllm), vllm.FastIncrementalDetokenizer):
            detokenizer = make(library, self.request([]))
            detokenizer.update([*library.encode("one"), 60_000, *library.encode(" two")], False)
            assert detokenizer.get_next_output_text(True, False) == "one two"

    def test_what_is_left_to_vllm(self, vllm: Any, library: Any) -> None:
        options = {"skip_special_tokens": False, "spaces_between_special_tokens": False}
        detokenizer = detokenizer_class(vllm)(library, self.request([], **options))
        assert detokenizer._ours is None
        detokenizer.update(library.encode("one<|endoftext|><|endoftext|>two"), False)
        text = detokenizer.get_next_output_text(True, False)
        assert text == "one<|endoftext|><|endoftext|>two"


class TestSglang:
    def manager(self, sglang: Any, library: Any) -> Any:
        """A manager, as far as decoding looks at it."""
        manager = sglang.DetokenizerManager.__new__(sglang.DetokenizerManager)
        manager.__dict__.update(
            tokenizer=library,
            vocab_size=50_257,
            decode_status={},
            disable_tokenizer_batch_decode=False,
            is_tool_call_parser_gpt_oss=False,
            tool_close_token_ids=frozenset(),
        )
        return manager

    def batch(self, rows: list[tuple[str, list[int], int, Any]], skip: bool, trim: bool) -> Any:
        """One step: for each request its id, its ids, where the answer begins, how it ended."""
        rids, ids, offsets, reasons = (list(column) for column in zip(*rows, strict=True))
        return SimpleNamespace(
            rids=rids,
            decoded_texts=[""] * len(rows),
            decode_ids=ids,
            read_offsets=offsets,
            finished_reasons=reasons,
            no_stop_trim=[not trim] * len(rows),
            skip_special_tokens=[skip] * len(rows),
            spaces_between_special_tokens=[True] * len(rows),
        )

    @pytest.mark.parametrize("skip", [False, True])
    @pytest.mark.parametrize("trim", [False, True])
    @pytest.mark.parametrize(
        "reason", [{"type": "length"}, {"matched": 50256}, {"matched": "to the"}, {"matched": "zz"}]
    )
    def test_as_its_own(
        self, sglang: Any, library: Any, skip: bool, trim: bool, reason: dict[str, Any]
    ) -> None:
        """All requests together, each at its own pace: the whole of what each was given."""
        manager = self.manager(sglang, library)
        stop = [50256] if reason.get("matched") == 50256 else []
        queues = {}
        for seed, text in enumerate(TEXTS):
            steps = steps_of(library.encode(text) + stop, seed)
            # The end of the prompt comes before the first ids.
            prompt = library.encode("Once upon a")
            steps[0] = prompt + steps[0]
            queues[f"r{seed}"] = steps
        found: dict[str, list[str]] = {rid: [] for rid in queues}
        expected: dict[str, list[str]] = {rid: [] for rid in queues}
        first = set(queues)
        while queues:
            rows = []
            for rid in list(queues):
                step = queues[rid].pop(0)
                ended = not queues[rid]
                rows.append((rid, step, 3 if rid in first else 0, reason if ended else None))
                if ended:
                    del queues[rid]
            first.clear()
            batch = self.batch(rows, skip, trim)
            for rid, text in zip(batch.rids, decode_batch(manager, batch), strict=True):
                found[rid].append(text)
            own = type(manager)._decode_batch_token_id_output(manager, batch)
            for rid, text in zip(batch.rids, own, strict=True):
                expected[rid].append(text)
        joined = {rid: "".join(texts) for rid, texts in found.items()}
        if "matched" in reason and isinstance(reason["matched"], str):
            # What was given before the end cannot be taken back, by neither; SGLang's scheduler
            # holds it, so only the ends can differ by what had come by then.
            for rid, texts in expected.items():
                assert joined[rid].startswith("".join(texts)) or "".join(texts).startswith(
                    joined[rid]
                )
        else:
            assert joined == {rid: "".join(texts) for rid, texts in expected.items()}
        assert manager._gristmill.open == {}
        assert len(manager._gristmill.batch) == 0

    def test_ids_out_of_range(self, sglang: Any, library: Any) -> None:
        """SGLang gives the text of token 0 for them; here they give none."""
        manager = self.manager(sglang, library)
        ids = [*library.encode("one"), -1, 2**40, *library.encode(" two")]
        batch = self.batch([("r", ids, 0, {"type": "length"})], False, True)
        assert decode_batch(manager, batch) == ["one two"]
        assert type(manager)._decode_batch_token_id_output(manager, batch) == ["one!! two"]


class TestMiniSglang:
    """`reference.py` against the original, and where Gristmill is not like that."""

    def message(self, uid: int, token: int, finished: bool = False) -> Any:
        return SimpleNamespace(uid=uid, next_token=token, finished=finished)

    def chunks(self, manager: Any, ids: list[int], uid: int = 0) -> list[str]:
        found = []
        for at, id in enumerate(ids):
            found += manager.detokenize([self.message(uid, id, at + 1 == len(ids))])
        return found

    @pytest.mark.parametrize("text", TEXTS)
    def test_the_reference_is_the_original(self, minisgl: Any, library: Any, text: str) -> None:
        ids = library.encode(text)
        theirs = self.chunks(minisgl.DetokenizeManager(library), ids)
        assert self.chunks(reference.DetokenizeManager(library), ids) == theirs

    @pytest.mark.parametrize("seed", range(20))
    def test_the_reference_is_the_original_on_any_ids(
        self, minisgl: Any, library: Any, seed: int
    ) -> None:
        generator = random.Random(seed)
        ids = [generator.randrange(50_257) for _ in range(80)]
        theirs = self.chunks(minisgl.DetokenizeManager(library), ids)
        assert self.chunks(reference.DetokenizeManager(library), ids) == theirs

    @pytest.mark.parametrize("text", TEXTS[:4])
    def test_chunks_of_whole_characters_are_the_original_s(
        self, minisgl: Any, library: Any, text: str
    ) -> None:
        """Where every token is whole characters, chunk by chunk; else the text is the same."""
        ids = library.encode(text)
        theirs = self.chunks(minisgl.DetokenizeManager(library), ids)
        ours = self.chunks(DetokenizeManager(Tokenizer("gpt2")), ids)
        assert "".join(ours) == "".join(theirs)
        if all("\ufffd" not in library.decode([id]) for id in ids):
            assert ours == theirs

    def test_bug_a_character_that_is_cut_off_is_lost(self, minisgl: Any, library: Any) -> None:
        ids = library.encode("a 🦙")[:2]
        assert "".join(self.chunks(minisgl.DetokenizeManager(library), ids)) == "a "
        ours = "".join(self.chunks(DetokenizeManager(Tokenizer("gpt2")), ids))
        assert ours == library.decode(ids) == "a \ufffd"

    def test_bug_an_abort_frees_nothing(self, minisgl: Any, library: Any) -> None:
        theirs, ours = minisgl.DetokenizeManager(library), DetokenizeManager(Tokenizer("gpt2"))
        for manager in (theirs, ours):
            manager.detokenize([self.message(7, 100)])
        assert 7 in theirs.decode_map
        assert not hasattr(theirs, "abort")
        ours.abort([7])
        assert len(ours) == 0

    def test_bug_a_late_token_begins_another_stream(self, minisgl: Any, library: Any) -> None:
        theirs, ours = minisgl.DetokenizeManager(library), DetokenizeManager(Tokenizer("gpt2"))
        for manager in (theirs, ours):
            manager.detokenize([self.message(7, 505, True)])
            manager.detokenize([self.message(7, 734)])
        assert 7 in theirs.decode_map
        assert len(ours) == 0

    def test_bug_one_id_ends_a_text(self, minisgl: Any, library: Any) -> None:
        """A second id that ends texts is printed."""
        last = [self.message(0, 11, True)]
        assert minisgl.DetokenizeManager(library).detokenize(last) == [","]
        ours = DetokenizeManager(Tokenizer("gpt2"), eos_token_ids=[50256, 11])
        assert ours.detokenize(last) == [""]

    def test_bug_an_early_piece(self, minisgl: Any, library: Any) -> None:
        """A space comes before the character it stands at, which is not certain then."""
        ids = library.encode("a 🎉!")
        theirs = self.chunks(minisgl.DetokenizeManager(library), ids)
        ours = self.chunks(DetokenizeManager(Tokenizer("gpt2")), ids)
        assert "".join(theirs) == "".join(ours) == "a 🎉!"
