"""Conversations as token ids, with marks on what the model is to learn, and batches of them of similar length."""

import multiprocessing
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass

import numpy
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from chat_format import segments
from conversations import Conversation, make_conversation

PER_JOB = 2500
MOST_WORKERS = 16
# Some hosts send the second request without the tools.
WITHOUT_TOOLS = 0.12
# Batches are cut from this many batches' worth of conversations, sorted by length.
SORTED_TOGETHER = 32


@dataclass(frozen=True)
class Dataset:
    """All conversations end to end: ids, whether each token is an answer's, and each conversation's length."""

    ids: numpy.ndarray
    answer: numpy.ndarray
    lengths: numpy.ndarray

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def starts(self) -> numpy.ndarray:
        return numpy.concatenate([[0], numpy.cumsum(self.lengths)[:-1]])


@dataclass(frozen=True)
class _Job:
    tokenizer: str
    count: int
    seed: int
    only_right: bool


def make_dataset(tokenizer: PreTrainedTokenizerFast, count: int, seed: int, only_right: bool = False) -> Dataset:
    """The same for the same seed, however many processes make it. Makes up to one job's worth too many."""
    written = tokenizer.backend_tokenizer.to_str()
    size = min(PER_JOB, count)
    jobs = [_Job(written, size, seed * 1_000_003 + index, only_right) for index in range(-(-count // size))]
    if len(jobs) == 1:
        return _encode_conversations(jobs[0])
    # Fork: nothing is imported again, and CUDA is not yet in use.
    with multiprocessing.get_context("fork").Pool(min(MOST_WORKERS, os.cpu_count() or 1)) as pool:
        return join(pool.map(_encode_conversations, jobs, chunksize=1))


def join(parts: list[Dataset]) -> Dataset:
    return Dataset(
        ids=numpy.concatenate([part.ids for part in parts]),
        answer=numpy.concatenate([part.answer for part in parts]),
        lengths=numpy.concatenate([part.lengths for part in parts]),
    )


def _encode_conversations(job: _Job) -> Dataset:
    encoder = _Encoder(Tokenizer.from_str(job.tokenizer))
    generator = random.Random(job.seed)
    lengths = []
    for _ in range(job.count):
        before = len(encoder.ids)
        conversation = make_conversation(generator, "right" if job.only_right else None)
        without = conversation.course != "no tool" and generator.random() < WITHOUT_TOOLS
        encoder.add(conversation, with_tools=not without)
        lengths.append(len(encoder.ids) - before)
    return Dataset(
        numpy.array(encoder.ids, numpy.uint16), numpy.array(encoder.answer, bool), numpy.array(lengths, numpy.int64)
    )


class _Encoder:
    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.ids: list[int] = []
        self.answer: list[bool] = []
        self.system_blocks: dict[str, list[int]] = {}

    def add(self, conversation: Conversation, with_tools: bool) -> None:
        pieces = segments(conversation, with_tools)
        last_answer = max(index for index, piece in enumerate(pieces) if piece.is_answer)
        for index, piece in enumerate(pieces):
            ids = self.encode_system_block(piece.text) if index == 0 else self.encode(piece.text)
            # A call of a tool that the request does not name is nothing to learn.
            learnt = piece.is_answer and (with_tools or index == last_answer)
            self.ids += ids
            self.answer += [learnt] * len(ids)

    def encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def encode_system_block(self, text: str) -> list[int]:
        """Nearly always one of a few; a conversation without one begins with its question."""
        if not text.startswith("<|im_start|>system"):
            return self.encode(text)
        if text not in self.system_blocks:
            self.system_blocks[text] = self.encode(text)
        return self.system_blocks[text]


def endless_batches(
    generator: numpy.random.Generator, members: numpy.ndarray, lengths: numpy.ndarray, size: int
) -> Iterator[numpy.ndarray]:
    """The members again and again, in a new order each time, conversations of similar length together."""
    while True:
        order = generator.permutation(members)
        for start in range(0, len(order), size * SORTED_TOGETHER):
            group = order[start : start + size * SORTED_TOGETHER]
            group = group[numpy.argsort(lengths[group], kind="stable")]
            batches = [group[place : place + size] for place in range(0, len(group), size)]
            for index in generator.permutation(len(batches)):
                yield batches[index]
