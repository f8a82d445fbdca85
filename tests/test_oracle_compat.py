"""Stand-ins for parts of other libraries, against those libraries."""

import random
from typing import Any

import gristmill
import pytest
import tiny
import tokenizers
from gristmill.compat.tokenizers import KEPT, DecodeStream, of

TEXT = "Hello, wörld! 水車は小麦を挽く。 🙂🎉\n\n  <|endoftext|>  the the"


@pytest.fixture(scope="module", params=[tiny.byte_level_json(), tiny.fallback_json()])
def library(request: pytest.FixtureRequest) -> Any:
    return tokenizers.Tokenizer.from_str(request.param.decode())


@pytest.mark.parametrize("skip", [False, True])
def test_decode_streams_step_by_step(library: Any, skip: bool) -> None:
    """What each step gives, None among it, and where the original raises an error."""
    generator = random.Random(7)
    size = library.get_vocab_size()
    rows = [library.encode(TEXT).ids]
    rows += [[generator.randrange(size) for _ in range(60)] for _ in range(20)]
    for ids in rows:
        theirs = tokenizers.decoders.DecodeStream(skip_special_tokens=skip)
        ours = DecodeStream(skip_special_tokens=skip)
        for id in ids:
            try:
                expected = theirs.step(library, id)
            except Exception as error:
                with pytest.raises(gristmill.TokenizerError, match=str(error)[:14]):
                    ours.step(library, id)
                break
            assert ours.step(library, id) == expected


def test_prompts(library: Any) -> None:
    ids = library.encode(TEXT).ids
    theirs = tokenizers.decoders.DecodeStream(ids=ids[:9], skip_special_tokens=False)
    ours = DecodeStream(ids=ids[:9])
    for id in ids[9:]:
        assert ours.step(library, id) == theirs.step(library, id)


def test_the_tokenizer_is_made_once(library: Any) -> None:
    assert of(library) is of(library)
    before = of(library)
    changed = tokenizers.Tokenizer.from_str(library.to_str())
    assert of(changed) is not before
    known = of(changed)
    changed.add_special_tokens(["<new>"])
    assert of(changed) is not known
    assert of(changed).special_tokens["<new>"] == changed.token_to_id("<new>")


def test_few_are_kept() -> None:
    from gristmill.compat import tokenizers as compat

    many = [tokenizers.Tokenizer.from_str(tiny.byte_level_json().decode()) for _ in range(KEPT + 3)]
    for one in many:
        of(one)
    assert len(compat._kept) == KEPT
