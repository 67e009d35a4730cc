"""List the numbers that the papers of Dali and RAMMER publish for the training steps.

Dali's numbers are seconds of an epoch and megabytes of a step, on a GPU that the paper does not
name. RAMMER's number is the ratio in the text about figure 21, on a V100.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """Dali's published numbers of a model.

    Attributes:
        title: the model's name in the paper.
        fused: seconds of an epoch with fusion.
        separate: seconds of an epoch without fusion.
        recomputed: seconds of an epoch with fusion and without temporaries, so that each reader of
            a value recomputes the value; None if not published.
        fused_mb: megabytes of memory of a step with fusion.
        separate_mb: megabytes of memory of a step without fusion.
        first: seconds of optimizing the model for the first time.
        cached: seconds of replaying a cached optimization.
        hashed: seconds of computing the hash that is the key of the cached optimization.
        computed: seconds of computing a step.
    """

    title: str
    fused: float
    separate: float
    recomputed: float | None
    fused_mb: float
    separate_mb: float
    first: float
    cached: float
    hashed: float
    computed: float

    @property
    def saving(self) -> float:
        """The seconds of the first optimization divided by the seconds of a cached optimization.

        The latter are ``cached`` + ``hashed``.
        """
        return self.first / (self.cached + self.hashed)


PUBLISHED: dict[str, Published] = {
    "dali_cnn": Published(
        "CNN", 1.11, 1.29, 1.13, 363.38, 376.62, 41.11e-3, 106.31e-6, 53.36e-6, 4.366e-3
    ),
    "dali_transformer": Published(
        "Transformer", 8.735, 12.518, None, 4276.50, 9165.89, 183.3e-3, 3.041e-3, 2.520e-3, 155.8e-3
    ),
    "mlstm": Published(
        "mLSTM", 93.342, 95.326, 268.382, 7102.13, 9581.12, 794.9e-3, 40.56e-3, 25.80e-3, 1.439
    ),
}

BEST_F_MAX = 3
"""Limit of an rOperator's inputs that is best for all three models (Dali, figure 2)."""

RAMMER_OVER_BASE = 2.28
"""Speed-up of RAMMER over its baseline that launches each operator (RAMMER, figure 21).

The speed-up is that of a training step of LSTM-TC with batch 256 on a V100.
"""
