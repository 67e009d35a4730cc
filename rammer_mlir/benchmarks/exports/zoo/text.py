"""Define text encoders and decoders of ``transformers``, to be exported to ONNX.

Functions return export entries (``table.Model``). An entry describes how a model is made, its
inputs, and the sizes at which the exported model is run.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
import transformers
from torch import nn

from rammer_mlir.benchmarks.exports.spec import Input
from rammer_mlir.benchmarks.exports.zoo.table import LENGTHS, SEQUENCES, Model, tokens

TINY = {
    "vocab_size": 100,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 1100,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
CACHED = tuple({"batch": 1 + i % 3, "length": 1, "past": n} for i, n in enumerate(LENGTHS))


class Keywords(nn.Module):
    """A ``transformers`` model that is called with positional arguments, and returns a tuple.

    The wrapped model itself is called with keyword arguments.
    """

    def __init__(self, model: nn.Module, names: tuple[str, ...], fixed: dict[str, Any]) -> None:
        """Wrap ``model``, a model that is called with keyword arguments.

        ``names`` are the keywords of the wrapper's positional arguments; each call also passes the
        keyword arguments ``fixed``.
        """
        super().__init__()
        self.model = model
        self.names = names
        self.fixed = fixed

    def forward(self, *args: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Run the wrapped model on ``args``; return the first three of its tensor results.

        Other results, such as None or a tuple, are left out.
        """
        found = self.model(**dict(zip(self.names, args, strict=True)), **self.fixed)
        values = found.to_tuple() if hasattr(found, "to_tuple") else (found,)
        return tuple(value for value in values if isinstance(value, torch.Tensor))[:3]


class Cached(nn.Module):
    """A causal language model with its key-value cache as input and output."""

    def __init__(self, model: nn.Module) -> None:
        """Wrap a causal language model."""
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, *past: torch.Tensor) -> Any:
        """Return the logits of the new tokens ``ids``, and each layer's updated keys and values.

        ``past`` has the keys and the values of each layer for the past tokens. ``mask`` is the
        attention mask over the past and the new tokens.
        """
        cache = transformers.DynamicCache(config=self.model.config)
        for index in range(len(past) // 2):
            cache.update(past[2 * index], past[2 * index + 1], index)
        found = self.model(
            input_ids=ids, attention_mask=mask, past_key_values=cache, use_cache=True
        )
        layers = found.past_key_values.layers
        return found.logits, *(each for layer in layers for each in (layer.keys, layer.values))


def configured(kind: str, **changes: Any) -> Any:
    """Return an object of transformers' configuration class ``kind`` + ``Config``.

    ``changes`` are the values of configuration fields, by name. Other fields have the small sizes
    in ``TINY`` if ``TINY`` lists the field, else the class's defaults.
    """
    cls = getattr(transformers, f"{kind}Config")
    known = {**TINY, **changes}
    if getattr(cls, "attribute_map", None):
        known = {cls.attribute_map.get(key, key): value for key, value in known.items()}
    accepted = set(inspect.signature(cls.__init__).parameters) | set(dir(cls))
    fields = getattr(cls, "__dataclass_fields__", {})
    accepted |= set(fields)
    kept = {k: v for k, v in known.items() if k in accepted or k in changes}
    return cls(**kept)


def wrapped(
    model: str, config: str, names: tuple[str, ...], fixed: dict[str, Any], **changes: Any
) -> Callable[[], nn.Module]:
    """Return a function that makes a model of transformers with random weights.

    The model is wrapped in ``Keywords``, for calls with positional arguments.

    Args:
        model: name of the model's class in transformers.
        config: prefix of the configuration's class, such as Bert for ``BertConfig``.
        names: the model's keyword for each positional argument of the wrapper, in order.
        fixed: keyword arguments that each call passes to the model in addition.
        changes: values of configuration fields, by name.
    """

    def make() -> nn.Module:
        found = getattr(transformers, model)(configured(config, **changes))
        return Keywords(found.eval(), names, fixed)

    return make


def encoder(kind: str, model: str = "", mask: bool = True, **changes: Any) -> Model:
    """Return the export entry of a transformers encoder for a batch of token sequences.

    Args:
        kind: prefix of transformers' classes, such as Bert.
        model: name of the model's class; if empty, ``kind`` + ``Model``.
        mask: whether an attention mask is an input.
        changes: values of configuration fields, by name.
    """
    inputs = tokens(mask)
    names = tuple(each.name for each in inputs)
    make = wrapped(model or f"{kind}Model", kind, names, {"return_dict": True}, **changes)
    return Model(kind.lower(), make, inputs, SEQUENCES)


def decoder(kind: str, model: str = "", **changes: Any) -> Model:
    """Return the export entry of a causal language model of transformers, without key-value cache.

    Args:
        kind: prefix of transformers' classes, such as GPT2.
        model: name of the model's class; if empty, ``kind`` + ``ForCausalLM``.
        changes: values of configuration fields, by name.
    """
    inputs = tokens()
    names = tuple(each.name for each in inputs)
    fixed = {"use_cache": False}
    make = wrapped(model or f"{kind}ForCausalLM", kind, names, fixed, **changes)
    return Model(kind.lower(), make, inputs, SEQUENCES)


def cached(kind: str, heads: int = 2, model: str = "", **changes: Any) -> Model:
    """Return the export entry of a causal language model of transformers with a key-value cache.

    The cache has two layers and 8 features per head. In a run, the model gets one new token per
    sequence, and a cache of the past tokens.

    Args:
        kind: prefix of transformers' classes, such as Llama.
        heads: number of attention heads whose keys and values each layer of the cache has.
        model: name of the model's class; if empty, ``kind`` + ``ForCausalLM``.
        changes: values of configuration fields, by name.
    """
    cache = ("batch", heads, "past", 8)
    pairs = tuple(Input(f"{kv}{i}", cache) for i in range(2) for kv in ("key", "value"))
    ids = Input("input_ids", ("batch", "length"), "tokens")
    mask = Input("attention_mask", ("batch", "past + length"), "mask")

    def make() -> nn.Module:
        config = configured(kind, **changes)
        return Cached(getattr(transformers, model or f"{kind}ForCausalLM")(config).eval())

    return Model(f"{kind.lower()}_cached", make, (ids, mask, *pairs), CACHED)


def pair(kind: str, **changes: Any) -> Model:
    """Return the export entry of an encoder-decoder model of transformers for text.

    ``kind`` is the prefix of transformers' classes, such as T5; ``changes`` are values of
    configuration fields, by name.
    """
    inputs = (*tokens(), Input("decoder_input_ids", ("batch", "target"), "tokens"))
    names = tuple(each.name for each in inputs)
    cases = tuple({**case, "target": 1 + 4 * i} for i, case in enumerate(SEQUENCES))
    fixed = {"use_cache": False}
    make = wrapped(f"{kind}ForConditionalGeneration", kind, names, fixed, **changes)
    return Model(kind.lower(), make, inputs, cases)


GROUPED = {"num_key_value_heads": 2, "head_dim": 8}
T5 = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
BART = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "decoder_start_token_id": 2,
    "forced_eos_token_id": 2,
}
DEBERTA = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "type_vocab_size": 0}
MODELS = (
    encoder("Bert"),
    encoder("Roberta"),
    encoder("DistilBert", dim=32, n_layers=2, n_heads=4, hidden_dim=64),
    encoder("Albert", embedding_size=16),
    encoder("Electra", embedding_size=16),
    encoder("Deberta", **DEBERTA),
    encoder("DebertaV2", **DEBERTA, position_buckets=16, norm_rel_ebd="layer_norm"),
    encoder("MobileBert", embedding_size=16, intra_bottleneck_size=16),
    encoder("Longformer", attention_window=16),
    encoder("MPNet"),
    encoder("RoFormer", embedding_size=32),
    encoder("FNet", mask=False),
    encoder("ConvBert", embedding_size=32, head_ratio=2, num_groups=1, conv_kernel_size=3),
    encoder("SqueezeBert", embedding_size=32),
    encoder("Nystromformer", num_landmarks=8, segment_means_seq_len=8),
    encoder("ModernBert", local_attention=16, global_attn_every_n_layers=2),
    decoder("GPT2", model="GPT2LMHeadModel"),
    decoder("Llama", **GROUPED),
    decoder("Qwen2", **GROUPED, use_sliding_window=True, sliding_window=16, max_window_layers=1),
    decoder("Gemma", **GROUPED),
    decoder("Gemma2", **GROUPED, sliding_window=16, query_pre_attn_scalar=8),
    decoder("Mistral", **GROUPED, sliding_window=16),
    decoder("Phi", partial_rotary_factor=0.5),
    decoder("Falcon", new_decoder_architecture=True, num_kv_heads=2),
    decoder("OPT", ffn_dim=64, word_embed_proj_dim=16),
    decoder("Bloom", n_layer=2, n_head=4),
    decoder("GPTNeoX", rotary_pct=0.25),
    decoder("GPTJ", rotary_dim=4, n_positions=1100),
    decoder("Mamba", model="MambaForCausalLM", state_size=8, expand=2),
    decoder("Mixtral", **GROUPED, num_local_experts=4, num_experts_per_tok=2),
    cached("Llama", **GROUPED),
    cached("GPT2", heads=4, model="GPT2LMHeadModel"),
    cached("Qwen2", **GROUPED),
    cached("Mistral", **GROUPED, sliding_window=None),
    pair("T5", **T5),
    pair("Bart", **BART),
)
