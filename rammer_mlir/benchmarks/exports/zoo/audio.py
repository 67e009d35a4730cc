"""Define models of ``transformers`` for audio."""

from __future__ import annotations

from typing import Any

from rammer_mlir.benchmarks.exports.spec import Input
from rammer_mlir.benchmarks.exports.zoo.table import Model
from rammer_mlir.benchmarks.exports.zoo.text import BART, wrapped

WAVES = tuple({"batch": 1 + i % 3, "samples": n} for i, n in enumerate((400, 1025, 4000, 8000)))
WAVE = {
    "conv_dim": (8, 8, 8),
    "conv_stride": (5, 4, 2),
    "conv_kernel": (10, 8, 4),
    "num_feat_extract_layers": 3,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
    "mask_time_prob": 0.0,
    "layerdrop": 0.0,
}


def waves(kind: str, name: str = "", **changes: Any) -> Model:
    """Return an encoder from ``transformers`` whose input is a batch of waveforms.

    Args:
        kind: prefix of the class names in ``transformers``, such as Wav2Vec2.
        name: name of the model; by default ``kind`` in lower case.
        changes: values of configuration fields that differ from ``WAVE``.
    """
    make = wrapped(f"{kind}Model", kind, ("input_values",), {}, **{**WAVE, **changes})
    return Model(name or kind.lower(), make, (Input("x", ("batch", "samples")),), WAVES)


def _spectrum(name: str, model: str, kind: str, frames: int | str, **changes: Any) -> Model:
    mel = Input("input_features", ("batch", 16, frames))
    cases = tuple({"batch": 1 + i % 3, "target": n} for i, n in enumerate((1, 7, 33, 64)))
    if model == "WhisperModel":
        ids = Input("decoder_input_ids", ("batch", "target"), "tokens")
        names = ("input_features", "decoder_input_ids")
        make = wrapped(model, kind, names, {"use_cache": False}, **changes)
        return Model(name, make, (mel, ids), cases)
    make = wrapped(model, kind, ("input_features",), {}, **changes)
    return Model(name, make, (mel,), tuple({"batch": n} for n in (1, 2, 3)))


WHISPER = {**BART, "num_mel_bins": 16, "max_source_positions": 50, "max_target_positions": 80}
MODELS = (
    waves("Wav2Vec2", feat_extract_norm="layer", do_stable_layer_norm=True),
    waves("Wav2Vec2", name="wav2vec2_group_norm", feat_extract_norm="group"),
    waves("Hubert"),
    waves("WavLM", num_buckets=32),
    waves("Wav2Vec2Conformer", position_embeddings_type="relative"),
    waves("UniSpeechSat"),
    _spectrum("whisper", "WhisperModel", "Whisper", 100, **WHISPER),
    Model(
        "ast",
        wrapped(
            "ASTModel", "AST", ("input_values",), {}, max_length=64, num_mel_bins=32, patch_size=16
        ),
        (Input("x", ("batch", 64, 32)),),
        tuple({"batch": n} for n in (1, 2, 3)),
    ),
)
