"""The small model's architecture, and how it is saved."""

import copy
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from tokenizer import END_OF_TURN, PADDING, save_tokenizer

# What `agl` is to know about the model: how to serve it, and the sampling and training that its figures were made with.
SETTINGS = Path(__file__).with_name("agl-model.json")


@dataclass(frozen=True)
class Shape:
    """4.26 million parameters."""

    hidden: int = 256
    layers: int = 5
    intermediate: int = 768
    heads: int = 4
    key_value_heads: int = 2
    head_size: int = 64


def make_model(tokenizer: PreTrainedTokenizerFast, shape: Shape) -> Qwen3ForCausalLM:
    config = Qwen3Config(
        vocab_size=-(-len(tokenizer) // 64) * 64,
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        intermediate_size=shape.intermediate,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_value_heads,
        head_dim=shape.head_size,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        rms_norm_eps=1e-6,
        bos_token_id=None,
        eos_token_id=tokenizer.convert_tokens_to_ids(END_OF_TURN),
        pad_token_id=tokenizer.convert_tokens_to_ids(PADDING),
    )
    return Qwen3ForCausalLM(config)


def save_model(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """In bfloat16, as a folder that transformers 4 and 5 and vLLM load."""
    saved = copy.deepcopy(model).to("cpu", torch.bfloat16)
    stops = [tokenizer.convert_tokens_to_ids(token) for token in (END_OF_TURN, PADDING)]
    saved.generation_config.eos_token_id = stops
    saved.generation_config.pad_token_id = stops[1]
    saved.config.use_cache = True
    saved.save_pretrained(folder)
    # Older loaders read these.
    edit_json(folder / "config.json", {"torch_dtype": "bfloat16", "dtype": "bfloat16", "rope_theta": 10000.0})
    save_tokenizer(tokenizer, folder)
    shutil.copyfile(SETTINGS, folder / SETTINGS.name)


def edit_json(file: Path, changes: dict[str, object]) -> None:
    data = json.loads(file.read_text(encoding="utf-8")) | changes
    file.write_text(json.dumps(data, indent=1), encoding="utf-8")
