"""List numbers that RAMMER's authors published, in the paper and in the data of its artifact."""

from __future__ import annotations

FIGURE_11: dict[str, dict[str, float]] = {
    "resnext29_16x64d": {
        "TensorFlow": 48.50, "XLA": 88.78, "TensorRT": 11.29, "TVM": 10.52, "base": 10.94,
        "Rammer": 4.63,
    },
    "nasnet_a_6_768": {
        "TensorFlow": 16.98, "XLA": 34.96, "TensorRT": 5.38, "TVM": 2.81, "base": 2.97,
        "Rammer": 1.74,
    },
    "alexnet": {
        "TensorFlow": 1.70, "XLA": 1.72, "TensorRT": 1.47, "TVM": 0.936, "base": 0.961,
        "Rammer": 0.958,
    },
    "deepspeech2_unrolled": {
        "TensorFlow": 46.88, "XLA": 22.71, "TensorRT": 6.75, "TVM": 15.01, "base": 7.89,
        "Rammer": 4.69,
    },
    "lstm_tc_unrolled": {
        "TensorFlow": 160.4, "XLA": 71.9, "TensorRT": 9.51, "TVM": 30.5, "base": 29.7,
        "Rammer": 4.73,
    },
    "seq2seq_unrolled": {
        "TensorFlow": 72.3, "XLA": 23.3, "TensorRT": 9.38, "TVM": 23.2, "base": 9.27,
        "Rammer": 3.66,
    },
}  # fmt: skip
"""Milliseconds on a V100 with a batch of 1, by model and system (figure 11).

The systems are TensorFlow 1.15, XLA, TensorRT 7, TVM 0.7, RammerBase ("base") and Rammer.
"""

BASE_KERNELS = {
    "resnext29_16x64d": 10.12, "nasnet_a_6_768": 2.354, "alexnet": 0.940,
    "deepspeech2_unrolled": 6.301, "lstm_tc_unrolled": 22.51, "seq2seq_unrolled": 5.954,
}  # fmt: skip
"""Milliseconds that RammerBase spends in kernels, by model (figure 16)."""

BATCHES = {
    ("resnext29_16x64d", 4): (17.79, 10.79), ("resnext29_16x64d", 16): (43.57, 33.08),
    ("lstm_tc_unrolled", 4): (39.11, 6.52), ("lstm_tc_unrolled", 16): (69.79, 8.71),
}  # fmt: skip
"""Milliseconds of RammerBase and of Rammer, by model and batch (figure 12)."""

IMAGENET = {"resnext101_64x4d": (74.90, 13.48), "nasnet_a_4_1056": (3.072, 2.119)}
"""Milliseconds of RammerBase and of Rammer, by model (figure 13)."""

UTILIZATION = {
    "resnext29_16x64d": (0.577, 0.788), "nasnet_a_6_768": (0.295, 0.502),
    "alexnet": (0.898, 0.900), "deepspeech2_unrolled": (0.363, 0.637),
    "lstm_tc_unrolled": (0.226, 0.542), "seq2seq_unrolled": (0.100, 0.145),
}  # fmt: skip
"""GPU utilization, a fraction, of RammerBase and of Rammer, by model (figure 14)."""

OVERHEAD = {
    "resnext29_16x64d": (0.819, 0.149), "nasnet_a_6_768": (0.619, 0.240),
    "alexnet": (0.020, 0.020), "deepspeech2_unrolled": (1.584, 0.472),
    "lstm_tc_unrolled": (7.206, 0.395), "seq2seq_unrolled": (3.320, 0.911),
}  # fmt: skip
"""Milliseconds that RammerBase and Rammer spend outside of kernels, by model (figure 16)."""

SELECTION_BATCH_4 = {"fast": 14.89, "select": 6.52}
"""Milliseconds of LSTM-TC, batch 4, with the fastest and with the selected rKernels (figure 17)."""

MI50_MEAN, MI50_MOST = 2.19, 4.12
"""Mean and largest speedup of Rammer over RammerBase on an MI50 (figure 19)."""

IPU_MOST = 5.37
"""Largest speedup of Rammer over RammerBase on an IPU (figure 20)."""

KERNEL_DEVIATION = 0.07
"""Relative standard deviation of ResNeXt's kernel times, weighted by these times (figure 4)."""
