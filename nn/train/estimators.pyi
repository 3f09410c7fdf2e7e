"""The settings of the estimators, made from FLAGS by tests/house/test_types.py."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from ..nn import Network

class NetworkClassifier(ClassifierMixin, BaseEstimator):
    network_: Network
    figures_: dict[str, Any]
    loss_curve_: list[float]
    n_features_in_: int
    classes_: np.ndarray
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = ...,
        eval_set: Any = ...,
    ) -> NetworkClassifier: ...
    def __init__(
        self,
        layers: str | Sequence[int | str] | None = ...,
        *,
        effort: str | None = ...,
        batch_size: int | None = ...,
        random_state: Any = ...,
        warm_start: bool = ...,
        scaling: str | None = ...,
        validation: float | str | None = ...,
        threshold: float | str | None = ...,
        calibrate: str | None = ...,
        categories: str | list[str] | None = ...,
        numbers: str | list[str] | None = ...,
        dates: str | list[str] | dict[str, Any] | None = ...,
        ordered: str | list[str] | dict[str, Any] | None = ...,
        drop: str | list[str] | None = ...,
        drop_duplicates: bool | None = ...,
        missing: str | list[str] | None = ...,
        strict: bool | None = ...,
        number_embedding: str | None = ...,
        target_means: bool | None = ...,
        activation: str | None = ...,
        loss: str | None = ...,
        init: str | Any | None = ...,
        epochs: int | None = ...,
        freeze: int | None = ...,
        patience: int | None = ...,
        networks: int | None = ...,
        vary: str | None = ...,
        monitor: str | None = ...,
        refit: bool | None = ...,
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
        backend: str | None = ...,
        threads: int | None = ...,
        gpus: str | int | tuple[int, ...] | None = ...,
        dtype: str | None = ...,
    ) -> None: ...
    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: Any = ...,
        sample_weight: Any = ...,
    ) -> NetworkClassifier: ...
    def predict(
        self,
        X: Any,
    ) -> np.ndarray: ...
    def predict_proba(
        self,
        X: Any,
    ) -> np.ndarray: ...
    def predict_set(
        self,
        X: Any,
        level: float,
    ) -> np.ndarray: ...
    def predict_log_proba(
        self,
        X: Any,
    ) -> np.ndarray: ...
    def decision_function(
        self,
        X: Any,
    ) -> np.ndarray: ...

class NetworkRegressor(RegressorMixin, BaseEstimator):
    network_: Network
    figures_: dict[str, Any]
    loss_curve_: list[float]
    n_features_in_: int
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = ...,
        eval_set: Any = ...,
        exposure: Any = ...,
    ) -> NetworkRegressor: ...
    def __init__(
        self,
        layers: str | Sequence[int | str] | None = ...,
        *,
        effort: str | None = ...,
        batch_size: int | None = ...,
        random_state: Any = ...,
        warm_start: bool = ...,
        scaling: str | None = ...,
        validation: float | str | None = ...,
        categories: str | list[str] | None = ...,
        numbers: str | list[str] | None = ...,
        dates: str | list[str] | dict[str, Any] | None = ...,
        ordered: str | list[str] | dict[str, Any] | None = ...,
        drop: str | list[str] | None = ...,
        drop_duplicates: bool | None = ...,
        exposure: str | int | np.ndarray | Sequence | None = ...,
        missing: str | list[str] | None = ...,
        strict: bool | None = ...,
        number_embedding: str | None = ...,
        target_means: bool | None = ...,
        activation: str | None = ...,
        loss: str | None = ...,
        init: str | Any | None = ...,
        epochs: int | None = ...,
        freeze: int | None = ...,
        patience: int | None = ...,
        networks: int | None = ...,
        vary: str | None = ...,
        monitor: str | None = ...,
        refit: bool | None = ...,
        clip: bool | None = ...,
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
        backend: str | None = ...,
        threads: int | None = ...,
        gpus: str | int | tuple[int, ...] | None = ...,
        dtype: str | None = ...,
    ) -> None: ...
    def partial_fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = ...,
        exposure: Any = ...,
    ) -> NetworkRegressor: ...
    def predict(
        self,
        X: Any,
        exposure: Any = ...,
    ) -> np.ndarray: ...
    def score(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = ...,
        exposure: Any = ...,
    ) -> float: ...
    def predict_interval(
        self,
        X: Any,
        level: float,
        exposure: Any = ...,
    ) -> tuple[np.ndarray, np.ndarray]: ...
