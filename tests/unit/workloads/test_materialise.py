"""Prompts made of rows: exact, unlike, alike where the row says so, and the same in any part."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

from engines.models.model_store import resolve_model
from engines.models.tokenizer import Codec, load_codec
from harness.core.errors import ModelFileError, UsageError
from harness.core.workload import After
from workloads.chat_text import plain_text
from workloads.exact_text import Residue
from workloads.materialise import PromptKind, PromptOptions, materialise
from workloads.shape import Message, PrefixBlocks, Shape

PLAIN = PromptOptions()
Prompt = tuple[int, ...]


class Letters:
    """A tokenizer of the given pieces: token i + 1 is piece i, the longest that fits is taken."""

    def __init__(self, *pieces: str, most: int | None = None) -> None:
        self._pieces = dict(enumerate(pieces, start=1))
        self._most = most

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        while text:
            fits = [i for i, piece in self._pieces.items() if text.startswith(piece)]
            ids.append(max(fits, key=lambda i: len(self._pieces[i])))
            text = text[len(self._pieces[ids[-1]]) :]
        return ids[: self._most]

    def decode(self, token_ids: Prompt) -> str:
        return "".join(self._pieces[i] for i in token_ids)


MERGING = Letters("ab", "c", "abc", "x", "y")


@pytest.fixture(scope="module")
def codec() -> Codec:
    try:
        return load_codec(resolve_model("smollm2-135m"))
    except ModelFileError as error:
        pytest.skip(str(error))


def rows(*lengths: int) -> list[Shape]:
    return [Shape(length, 4) for length in lengths]


def prompts(
    shapes: Sequence[Shape], options: PromptOptions = PLAIN, seed: int = 1, first_id: int = 0
) -> list[Prompt]:
    made = materialise(shapes, options, seed, first_id=first_id)
    return [arrival.request.prompt_token_ids for arrival in made]


def alike(one: Prompt, other: Prompt) -> int:
    """How many tokens the two begin with alike."""
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


@given(st.lists(st.integers(1, 300), max_size=30))
def test_every_prompt_has_its_length_and_tokens_of_the_range(lengths: list[int]) -> None:
    made = prompts(rows(*lengths), PromptOptions(token_ids=(50, 90)))

    assert [len(prompt) for prompt in made] == lengths
    assert all(50 <= token < 90 for prompt in made for token in prompt)


def test_no_two_prompts_share_a_block() -> None:
    made = prompts(rows(*[32] * 5000))

    for start in (0, 16):
        assert len({prompt[start : start + 16] for prompt in made}) == 5000
    assert len({prompt[0] for prompt in made}) == 5000


def test_tokens_are_even_over_the_range() -> None:
    tokens = [token for prompt in prompts(rows(*[200] * 100)) for token in prompt]

    assert sum(tokens) / len(tokens) == pytest.approx(15_500, rel=0.02)
    assert len(set(tokens)) > 14_000


def test_any_part_of_a_workload_can_be_made_alone() -> None:
    shapes = rows(*range(1, 800, 7))
    whole = prompts(shapes)

    assert prompts(shapes[88:95], first_id=88) == whole[88:95]
    assert prompts(shapes, seed=2) != whole


def test_the_prompts_of_a_seed_are_pinned() -> None:
    """A change here means that old seeds no longer send what they sent: say so in the changelog."""
    blocks = PrefixBlocks((3, 2**63, 5), 16)
    made = prompts([*rows(5, 40), Shape(40, 1, blocks=blocks)], seed=0)

    assert hashlib.sha256(repr(made).encode()).hexdigest()[:16] == "ca82047f0702de01"


@st.composite
def block_shapes(draw: st.DrawFn) -> list[Shape]:
    """Rows as Mooncake has them: the ids of a prompt are a path in a tree of blocks."""
    size = draw(st.integers(8, 24))
    paths: list[tuple[int, ...]] = [()]
    shapes, fresh = [], 0
    for _ in range(draw(st.integers(1, 20))):
        kept = draw(st.sampled_from(paths))
        own = draw(st.integers(0 if kept else 1, 4))
        path = (*kept, *range(fresh, fresh + own))
        fresh += own
        paths.append(path)
        shapes.append(Shape(len(path) * size, 1, blocks=PrefixBlocks(path, size)))
    return shapes


@given(block_shapes())
def test_a_cache_finds_in_the_prompts_what_the_ids_promise(shapes: list[Shape]) -> None:
    """The hit rate of a prefix cache without a limit, counted block by block by brute force."""

    def hits(paths: Sequence[tuple[object, ...]]) -> int:
        seen: set[tuple[object, ...]] = set()
        found = 0
        for path in paths:
            for end in range(1, len(path) + 1):
                found += path[:end] in seen
                seen.add(path[:end])
        return found

    cut = [
        tuple(prompt[at : at + size] for at in range(0, len(prompt), size))
        for prompt, size in zip(prompts(shapes), (s.blocks.tokens for s in shapes), strict=True)
    ]

    assert hits(cut) == hits([shape.blocks.ids for shape in shapes])


def test_a_block_that_is_cut_short_begins_the_whole_block() -> None:
    """So the prompt of a turn begins the prompt of the next one, wherever it ends."""
    ids = tuple(range(100, 110))
    lengths = (5, 16, 17, 60, 150)
    made = prompts([Shape(n, 1, blocks=PrefixBlocks(ids[: -(-n // 16)], 16)) for n in lengths])

    for shorter, longer in pairwise(made):
        assert longer[: len(shorter)] == shorter


def test_other_blocks_begin_otherwise() -> None:
    made = prompts([Shape(16, 1, blocks=PrefixBlocks((i,), 16)) for i in range(300)])

    assert max(alike(a, b) for a, b in combinations(made, 2)) == 0


def test_rows_are_due_when_they_say_and_turns_wait_for_the_turn_before() -> None:
    shapes = [
        Shape(3, 2, "chat", 50, session="a"),
        Shape(3, 2, due_ns=60),
        Shape(6, 2, session="a", turn=1, delay_ns=9),
        Shape(6, 2),
        Shape(9, 2, due_ns=70, session="a", turn=2),
    ]
    made = list(materialise(shapes, PLAIN, 1))

    assert [a.due_ns for a in made] == [50, 60, 50, 0, 70]
    assert [a.after for a in made] == [None, None, After(0, 9), None, After(2, 0)]
    assert [(a.request.index, a.request.session, a.request.turn) for a in made] == [
        (0, "a", 0), (1, None, 0), (2, "a", 1), (3, None, 0), (4, "a", 2),
    ]  # fmt: skip
    assert made[0].request.label == "chat"


def test_texts_and_chats_become_the_tokens_of_the_model() -> None:
    options = PromptOptions(
        tokenizer=Letters("U", "s", "er", ": ", "x", "\n\n", "A", "i", "tant", ":")
    )
    shapes = [Shape(None, 2, text="xx"), Shape(None, 2, messages=(Message("user", "x"),))]
    made = prompts(shapes, replace(options, chat_text=plain_text))

    assert made == [(5, 5), (1, 2, 3, 4, 5, 6, 7, 2, 2, 8, 2, 9, 10)]
    with pytest.raises(UsageError, match="request 0 is a text, and no tokenizer is known"):
        prompts(shapes)
    with pytest.raises(UsageError, match="request 1 has messages of a chat; give --chat-form"):
        prompts(shapes, options)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (Shape(0, 4), "request 0 has 0 prompt tokens and asks for 4; both must be at least 1"),
        (Shape(4, 0), "request 0 has 4 prompt tokens and asks for 0"),
        (Shape(4, None), "does not say how many tokens it asks for; give --output-tokens"),
        (Shape(None, 4), "request 0 has neither a prompt nor its length"),
    ],
)
def test_a_row_that_is_no_request_is_refused(shape: Shape, message: str) -> None:
    """vllm#24591: a prompt of one token less its special token was sent empty."""
    with pytest.raises(UsageError, match=message):
        prompts([shape])


def test_answers_without_a_length_get_the_one_that_is_given() -> None:
    (made,) = materialise([Shape(4, None)], PromptOptions(output_tokens=9), 1)

    assert made.request.max_tokens == 9


@pytest.mark.parametrize("length", [1, 2, 7, 100])
def test_e01_random_tokens_that_merge_as_text_are_replaced_until_the_count_is_exact(
    length: int,
) -> None:
    """vllm#24937: 8192 random tokens came back as 8179, others as 5827 of 10000."""
    options = PromptOptions(token_ids=(1, 6), tokenizer=MERGING)
    residue = Residue()
    made = [
        a.request.prompt_token_ids for a in materialise(rows(*[length] * 100), options, 3, residue)
    ]

    assert all(len(prompt) == length for prompt in made)
    assert all(MERGING.encode(MERGING.decode(prompt)) == list(prompt) for prompt in made)
    assert (residue.prompts, residue.off, str(residue)) == (100, 0, "")


def test_e01_what_cannot_be_exact_is_counted() -> None:
    options = PromptOptions(token_ids=(1, 4), tokenizer=Letters("a", "b", "c", most=5))
    residue = Residue()
    made = list(materialise(rows(4, 5, 9, 12), options, 3, residue))

    assert [len(a.request.prompt_token_ids) for a in made] == [4, 5, 5, 5]
    assert str(residue).startswith("2 of 4 prompts have another number of tokens as text")
    assert residue.most_tokens == 7


def test_e01_shared_blocks_are_left_alone_and_their_residue_is_counted() -> None:
    options = PromptOptions(token_ids=(1, 6), tokenizer=MERGING)
    shapes = [Shape(40, 1, blocks=PrefixBlocks((1, i), 20)) for i in range(2, 30)]
    residue = Residue()
    made = [a.request.prompt_token_ids for a in materialise(shapes, options, 3, residue)]

    assert len({prompt[:20] for prompt in made}) == 1
    assert {len(prompt) for prompt in made} == {40}
    assert residue.off > 0


def test_natural_prompts_need_a_tokenizer() -> None:
    with pytest.raises(UsageError, match="natural prompts are counted by the model's tokenizer"):
        prompts(rows(3), PromptOptions(kind=PromptKind.NATURAL))


LENGTHS = (1, 2, 3, 15, 16, 17, 128, 777, 4096)


@pytest.mark.parametrize("kind", PromptKind)
def test_as_text_every_prompt_has_its_exact_number_of_tokens_of_smollm2(
    kind: PromptKind, codec: Codec
) -> None:
    residue = Residue()
    options = PromptOptions(kind=kind, tokenizer=codec)
    blocks = [Shape(n, 4, blocks=PrefixBlocks(tuple(range(-(-n // 16))), 16)) for n in LENGTHS]
    made = list(materialise([*rows(*LENGTHS), *blocks], options, 5, residue))

    for arrival, length in zip(made, LENGTHS * 2, strict=True):
        ids = arrival.request.prompt_token_ids
        assert len(ids) == length
        assert codec.encode(codec.decode(ids)) == ids
    assert residue.off == 0


def test_natural_prompts_read_like_sentences_and_are_unlike(codec: Codec) -> None:
    made = prompts(rows(*[100] * 400), PromptOptions(kind=PromptKind.NATURAL, tokenizer=codec))

    assert len({prompt[:16] for prompt in made}) == 400
    pairs = list(zip(made, made[1:] + made[:1], strict=True))
    assert max(alike(a, b) for a, b in pairs) < 5
    text = codec.decode(made[0])
    assert text.count(".") >= 5
    assert text.split()[0] in {"The", "This", "When", "In", "Their", "Every", "We", "She"}


def test_a_tokenizer_of_bytes_makes_exact_texts_too() -> None:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(BPE(vocab={letter: i for i, letter in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    codec = Codec(tokenizer, None)
    residue = Residue()
    for kind, token_ids in ((PromptKind.NATURAL, (0, 1)), (PromptKind.RANDOM, (35, 90))):
        options = PromptOptions(token_ids, kind, codec)
        made = list(materialise(rows(1, 5, 64, 300), options, 5, residue))
        assert [len(a.request.prompt_token_ids) for a in made] == [1, 5, 64, 300]
    assert (residue.prompts, residue.off) == (8, 0)
