"""The settings of train, made from FLAGS by tests/house/test_types.py."""

from typing import Any

import numpy as np

from ..ds import Dataset
from ..files.checkpoint import Checkpoint
from ..nn import Network
from ..utils import StopRequest
from ..watch.callbacks import Callback
from .rows import ReadValidation

def train(
    net: Network,
    ds: Dataset,
    *,
    rows: np.ndarray | None = ...,
    validation: float | str | Dataset | ReadValidation | None = ...,
    callback: Callback | None = ...,
    checkpoint: str | Checkpoint | None = ...,
    stop: StopRequest | None = ...,
    goes_on: bool = ...,
    scaling: str | None = ...,
    holdout: float | None = ...,
    threshold: float | str | None = ...,
    calibrate: str | None = ...,
    number_embedding: str | None = ...,
    target_means: bool | None = ...,
    epochs: int | None = ...,
    freeze: int | None = ...,
    batch_number: int | None = ...,
    batch_size: int | None = ...,
    patience: int | None = ...,
    networks: int | None = ...,
    vary: str | None = ...,
    folds: int | None = ...,
    monitor: str | None = ...,
    refit: bool | None = ...,
    clip: bool | None = ...,
    class_weight: str | list[float] | None = ...,
    learning_rate: float | None = ...,
    optimizer: str | None = ...,
    momentum: float | None = ...,
    betas: str | float | list[float] | None = ...,
    epsilon: float | None = ...,
    weight_decay: float | None = ...,
    scale_rate: float | None = ...,
    augment: str | None = ...,
    schedule: str | None = ...,
    split_seed: int | None = ...,
    checkpoint_every: int | None = ...,
    resume: str | None = ...,
) -> dict[str, Any]: ...
