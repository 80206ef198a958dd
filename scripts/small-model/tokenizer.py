"""The small model's tokenizer: byte-level BPE with one token per digit, and the chat template."""

import json
import random
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

import problems
from chat_format import CHAT_TEMPLATE, text_of
from conversations import make_conversation

END_OF_TURN, PADDING = "<|im_end|>", "<|endoftext|>"
SPECIAL = [PADDING, "<|im_start|>", END_OF_TURN]
# Plain tokens: a tool parser must see them in the decoded text.
TAGS = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]
VOCABULARY = 1280
WORDS = r" ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+"


def make_tokenizer(conversations: int = 6000, seed: int = 7) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORDS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(SPECIAL) - len(TAGS),
        show_progress=False,
        min_frequency=5,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(texts(conversations, seed), trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in TAGS])
    made = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END_OF_TURN,
        pad_token=PADDING,
        clean_up_tokenization_spaces=False,
        model_max_length=2048,
    )
    made.chat_template = CHAT_TEMPLATE
    return made


def texts(conversations: int, seed: int) -> list[str]:
    """Conversations without their marks, and every word of the generator often enough to become a token."""
    generator = random.Random(seed)
    written = [text_of(make_conversation(generator)) for _ in range(conversations)]
    for mark in [*SPECIAL, *TAGS]:
        written = [text.replace(mark, "\n") for text in written]
    words = [
        *problems.NAMES,
        *problems.OBJECTS,
        *problems.PLACES,
        *problems.CONTAINERS,
        *problems.LIQUIDS,
        *problems.PERIODS,
    ]
    return [*written, *[" ".join(words)] * 50]


def save_tokenizer(tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """With names that transformers 4 and 5, and so any vLLM, load."""
    tokenizer.save_pretrained(folder)
    file = folder / "tokenizer_config.json"
    config = json.loads(file.read_text(encoding="utf-8"))
    config |= {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": tokenizer.chat_template}
    file.write_text(json.dumps(config, indent=1, ensure_ascii=False), encoding="utf-8")
