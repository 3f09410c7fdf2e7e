"""The settings of fit, made from FLAGS by tests/house/test_types.py."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..files.checkpoint import Checkpoint
from ..nn import Network
from ..test.importance import Importance
from ..test.shapley import Explanation
from ..watch.callbacks import Callback

def fit(
    data: Any,
    target: str | int | np.ndarray | Sequence | None = ...,
    *,
    effort: str | None = ...,
    layers: str | Sequence[int | str] | None = ...,
    callback: Callback | None = ...,
    checkpoint: str | Checkpoint | None = ...,
    positive: str | list[str] | dict[str, Any] | None = ...,
    task: str | None = ...,
    scaling: str | None = ...,
    holdout: float | None = ...,
    validation: float | str | None = ...,
    threshold: float | str | None = ...,
    calibrate: str | None = ...,
    categories: str | list[str] | None = ...,
    numbers: str | list[str] | None = ...,
    dates: str | list[str] | dict[str, Any] | None = ...,
    ordered: str | list[str] | dict[str, Any] | None = ...,
    drop: str | list[str] | None = ...,
    id: str | list[str] | None = ...,
    drop_duplicates: bool | None = ...,
    weight: str | int | np.ndarray | Sequence | None = ...,
    exposure: str | int | np.ndarray | Sequence | None = ...,
    group: str | int | np.ndarray | Sequence | None = ...,
    time: str | int | np.ndarray | Sequence | None = ...,
    missing: str | list[str] | None = ...,
    strict: bool | None = ...,
    number_embedding: str | None = ...,
    target_means: bool | None = ...,
    separator: str | None = ...,
    header: str | None = ...,
    activation: str | None = ...,
    loss: str | None = ...,
    init: str | Any | None = ...,
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
    seed: int | None = ...,
    split_seed: int | None = ...,
    reference: bool | None = ...,
    checkpoint_every: int | None = ...,
    resume: str | None = ...,
    backend: str | None = ...,
    threads: int | None = ...,
    gpus: str | int | tuple[int, ...] | None = ...,
    distribute: str | None = ...,
    memory: int | None = ...,
    dtype: str | None = ...,
) -> Model: ...

class Model:
    network: Network
    metrics: dict[str, Any]
    def __init__(
        self,
        network: Network,
        metrics: dict | None = ...,
    ) -> None: ...
    @classmethod
    def load(
        cls,
        path: Any,
        **engine: Any,
    ) -> Model: ...
    def save(
        self,
        path: Any,
    ) -> None: ...
    def export(
        self,
        path: Any,
        level: float | None = ...,
    ) -> None: ...
    @property
    def members(
        self,
    ) -> list[Network]: ...
    @property
    def columns(
        self,
    ) -> list[str] | None: ...
    def predict(
        self,
        rows: Any,
        exposure: Any = ...,
    ) -> np.ndarray: ...
    def predict_proba(
        self,
        rows: Any,
    ) -> np.ndarray: ...
    def predict_interval(
        self,
        rows: Any,
        level: float,
        exposure: Any = ...,
    ) -> tuple[np.ndarray, np.ndarray]: ...
    def predict_set(
        self,
        rows: Any,
        level: float,
    ) -> list[list]: ...
    def test(
        self,
        data: Any,
        **settings: Any,
    ) -> dict[str, Any]: ...
    def drift(
        self,
        rows: Any,
    ) -> dict[str, Any]: ...
    @property
    def classes_(
        self,
    ) -> np.ndarray | None: ...
    @property
    def feature_names_in_(
        self,
    ) -> np.ndarray | None: ...
    def score(
        self,
        data: Any,
        y: Any = ...,
        exposure: Any = ...,
    ) -> float: ...
    def importance(
        self,
        data: Any,
        **settings: Any,
    ) -> Importance: ...
    def explain(
        self,
        rows: Any,
        background: Any = ...,
        **settings: Any,
    ) -> Explanation: ...

def compare(
    a: Any,
    b: Any,
    data: Any,
    *,
    seed: int = ...,
) -> dict[str, Any]: ...
