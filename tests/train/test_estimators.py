"""nn.NetworkClassifier and nn.NetworkRegressor as scikit-learn uses them; what
notebooks do with data frames."""

import ast
import contextlib
import copy
import pickle
import subprocess
import sys

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csc_array, csr_matrix, issparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits, make_classification
from sklearn.ensemble import StackingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from support.command_line import argv, predictions, succeed

import nn

ESTIMATORS = ["NetworkClassifier", "NetworkRegressor"]
BATCHES_DIFFER = dict.fromkeys(
    (f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")),
    "a row of weight 2 counts as two in its batch; twice it may be in two batches, and those hold other rows",
)
WITHOUT = """
import sys; sys.modules['sklearn.base'] = None
import nn; from nn import *
for name in NAMES:
    try:
        getattr(nn, name)
    except nn.UsageError as error:
        print(error)
"""
QUICK = {"effort": "quick", "epochs": 20}
DENSE = make_column_transformer(
    (OneHotEncoder(), ["kind"]),
    (StandardScaler(), ["size", "price"]),
    sparse_threshold=0,
)
SPARSE = make_column_transformer(
    (OneHotEncoder(), ["kind", "price"]), sparse_threshold=1
)
SEVERAL = [
    (str(seed), nn.NetworkClassifier(**QUICK, random_state=seed)) for seed in range(2)
]
TOOLS = {
    "dense columns": make_pipeline(DENSE, nn.NetworkClassifier(**QUICK)),
    "sparse columns": make_pipeline(SPARSE, nn.NetworkClassifier(**QUICK)),
    "stacking": StackingClassifier(SEVERAL, LogisticRegression(), cv=2),
    "calibration": CalibratedClassifierCV(nn.NetworkClassifier(**QUICK), cv=2),
}


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """A table with numbers, gaps, categories, dates and an id."""
    rng = np.random.default_rng(0)
    rows = 300
    draws = rng.normal(size=rows).round(4)
    frame = pd.DataFrame(
        {
            "size": draws,
            "id": rng.permutation(rows) + 5,
            "kind": rng.choice([*"xyz"], rows),
            "when": pd.date_range("2020-01-01", periods=rows, freq="7h"),
            "price": rng.normal(size=rows).round(3),
        }
    )
    frame.loc[3, "size"] = np.nan
    frame.loc[5, "kind"] = None
    return frame


@pytest.fixture(scope="module")
def labels(frame) -> pd.Series:
    selected = np.where((frame.kind == "x") | (frame.price > 0.5), "no", "yes")
    return pd.Series(selected, name="sold")


@pytest.fixture(scope="module")
def fitted(frame, labels):
    return nn.NetworkClassifier(effort="quick", epochs=5, random_state=3).fit(
        frame, labels
    )


def column(name, model, data) -> np.ndarray:
    """A column of numbers of `nn --predict`."""
    return np.array([row[name] for row in predictions(model, data)], np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_checks_of_scikit_learn_pass(name):
    estimator = getattr(nn, name)(effort="quick", epochs=40)
    results = check_estimator(
        estimator, expected_failed_checks=BATCHES_DIFFER, on_skip=None
    )
    assert len(results) > 50
    check_names = {
        result["check_name"] for result in results if result["status"] == "xfail"
    }
    assert check_names <= set(BATCHES_DIFFER)


@pytest.mark.usual(1)
@pytest.mark.parametrize(
    "settings, flags, rows",
    [
        (
            {"effort": "quick", "epochs": 5},
            ["--networks", 1, "--epochs", 5, "--holdout", 0],
            300,
        ),
        ({}, [], 120),
        ({"learning_rate": 0.01, "epochs": 4, "activation": "tanh"}, None, 120),
        ({"effort": "quick", "threshold": "f1", "calibrate": "temperature"}, None, 120),
    ],
)
def test_a_fit_gives_the_probabilities_of_the_command_line(
    frame, labels, folder, settings, flags, rows
):
    """flags: None, the settings by their names."""
    frame = frame[:rows]
    labels = labels[:rows]
    frame.assign(sold=labels).to_csv("frame.csv", index=False)
    if flags is None:
        flags = [
            word for name, value in settings.items() for word in (f"--{name}", value)
        ]
    succeed(*argv("--train --dataset frame.csv --model m.bin --seed 3 -q"), *flags)
    classifier = nn.NetworkClassifier(random_state=3, **settings).fit(frame, labels)
    assert np.array_equal(
        classifier.predict_proba(frame)[:, 1], column("score yes", "m.bin", "frame.csv")
    )
    expected = [row["predicted"] for row in predictions("m.bin", "frame.csv")]
    assert classifier.predict(frame).tolist() == expected
    if rows == 120:
        assert len(classifier.network_.members) >= 8
        assert classifier.figures_["effort"] == settings.get("effort", "standard")


def copies(thing, folder) -> list:
    joblib.dump(thing, folder / "copy")
    return [
        pickle.loads(pickle.dumps(thing)),
        copy.deepcopy(thing),
        copy.copy(thing),
        joblib.load(folder / "copy"),
    ]


def test_copies_an_export_and_a_fit_to_another_kind_of_frame_predict_the_same(
    fitted, frame, labels, folder
):
    expected = fitted.predict_proba(frame)
    polars = pl.from_pandas(frame)
    assert all(
        np.array_equal(other.predict_proba(frame), expected)
        for other in copies(fitted, folder)
    )
    fitted.network_.export("m.bin")
    names = ["price", "sold", "when", "kind", "size"]  # in another order
    frame.assign(sold=labels)[names].to_csv("other.csv", index=False)
    assert np.array_equal(expected[:, 1], column("score yes", "m.bin", "other.csv"))
    assert [row["true"] for row in predictions("m.bin", "other.csv")] == labels.tolist()
    other = clone(fitted).fit(polars, labels.to_list())
    assert np.array_equal(other.predict_proba(polars), expected)
    assert other.feature_names_in_.tolist() == list(frame.columns)


def test_a_regression_gives_the_values_of_the_command_line(frame, folder):
    features = frame[["size", "kind"]]
    features.assign(price=frame.price).to_csv("frame.csv", index=False)
    flags = ["--epochs", 3, "--holdout", 0, "--networks", 2, "-q"]
    succeed("--train", "--dataset", "frame.csv", "--model", "m.bin", *flags)
    regressor = nn.NetworkRegressor(effort="quick", epochs=3, networks=2).fit(
        features, frame.price
    )
    values = column("predicted price", "m.bin", "frame.csv")
    assert np.array_equal(regressor.predict(features).astype(np.float32), values)


@pytest.mark.parametrize(
    "given", [{"layers": "auto,8,1"}, {"epochs": 5}, {"activation": "tanh"}]
)
def test_quick_effort_gives_way_to_what_is_given(frame, labels, given):
    classifier = nn.NetworkClassifier(effort="quick", **given).fit(frame, labels)
    assert len(classifier.network_.members) == 1
    assert "effort" not in classifier.figures_


def test_few_rows_train_one_network_for_enough_steps():
    x = np.random.default_rng(1).normal(size=(64, 2))
    for weights in (np.ones(7), np.arange(20) < 7):  # the folds are 8
        few = x[: len(weights)]
        model = nn.NetworkRegressor(effort="quick").fit(few, few[:, 0], weights)
        assert len(model.network_.members) == 1
    # of two batches: 1,000 steps
    model = nn.NetworkRegressor(networks=1).fit(x, x[:, 0])
    assert len(model.loss_curve_) == 500
    # of seven batches: 1,001
    rows = np.resize(x, (200, 2))
    model = nn.NetworkRegressor(networks=1, layers="2,1").fit(rows, rows[:, 0])
    assert len(model.loss_curve_) == 143


@pytest.mark.parametrize("targets", [1, 2])
def test_intervals_of_a_sparse_matrix_are_those_of_its_rows(targets, monkeypatch):
    x = np.random.default_rng(1).integers(-1, 2, (120, 3)).astype(float)
    y = x[:, :targets] + np.random.default_rng(2).normal(size=(120, targets)) / 9
    y = y[:, 0] if targets == 1 else y
    how = {"layers": f"3,{targets}", "validation": 0.5, "epochs": 5}
    model = nn.NetworkRegressor(**how).fit(x, y)
    dense = model.predict_interval(x, 0.8)
    monkeypatch.setattr(sys.modules["nn.train.estimators"], "_DENSE_VALUES", 150)
    sparse = model.predict_interval(csr_matrix(x), 0.8)
    for ends, expected in zip(sparse, dense, strict=True):
        assert ends.shape == y.shape
        np.testing.assert_array_equal(ends, expected)
    np.testing.assert_array_equal(model.predict(csr_matrix(x)), model.predict(x))


@pytest.mark.parametrize("given, schedule", [(None, "constant"), ("linear", "linear")])
def test_parts_have_one_epoch_each_at_a_constant_rate_unless_another_is_given(
    given, schedule
):
    x = np.random.default_rng(1).normal(size=(64, 2))
    model = nn.NetworkRegressor(layers="2,1", schedule=given)
    for part in range(2):
        model.partial_fit(x, x[:, 0])
        assert len(model.loss_curve_) == part + 1
        config = model.network_.config
        assert [config["epochs"], config["schedule"]] == [1, schedule]


def test_effort_leaves_out_rows_of_weight_0(frame, labels):
    features = frame[["size", "price"]].fillna(0.0)
    weights = np.repeat([1.0, 0.0, 2.0], 100)
    some = weights > 0

    def scores(x, y, weights):
        fitted = nn.NetworkClassifier(effort="quick").fit(x, y, sample_weight=weights)
        return fitted.predict_proba(features)

    of_some = scores(features[some], labels[some], weights[some])
    assert np.array_equal(scores(features, labels, weights), of_some)
    assert not np.array_equal(of_some, scores(features[some], labels[some], None))


def test_a_fit_says_what_it_found(fitted, frame, labels):
    assert fitted.classes_.tolist() == ["no", "yes"]
    assert fitted.n_features_in_ == 5
    assert len(fitted.loss_curve_) == 5
    assert fitted.loss_curve_[-1] < fitted.loss_curve_[0]
    assert fitted.network_.columns == ["size", "kind", "when", "price"]
    assert "4,60:relu,10:relu,1:sigmoid" in repr(fitted.network_)
    assert fitted.score(frame, labels) == np.mean(fitted.predict(frame) == labels)


def test_rows_given_to_evaluate_choose_the_best_epoch_and_go_with_quick_effort_only(
    frame, labels
):
    rows = (frame[:200], labels[:200])
    test_rows = (frame[200:], labels[200:])
    ahead = {"epochs": 60, "patience": 4}
    early = nn.NetworkClassifier(**ahead, learning_rate=0.03).fit(
        *rows, eval_set=test_rows
    )
    values = early.figures_["val_metric"]
    assert early.figures_["best_epoch"] == int(np.argmin(values)) + 1 == len(values) - 4
    names = early.classes_.tolist()
    truth = labels[200:]
    chosen = early.predict_proba(frame[200:])[
        np.arange(100), [names.index(label) for label in truth]
    ]
    # the mean of float32 losses
    mean = np.log(chosen).mean()
    assert -mean == pytest.approx(min(values), rel=1e-5)
    assert len(early.network_.members) == 1
    with pytest.raises(ValueError, match="effort standard: eval_set is not for it"):
        nn.NetworkClassifier(effort="standard").fit(*rows, eval_set=test_rows)


def test_weights_of_classes_and_rows_count(frame, labels):
    given = {"layers": "auto,8,1", "scaling": "none", "epochs": 3}
    weights = np.where(labels == "no", 3.0, 1.0)
    # whose statistics, which rows' weights count in, are not asked for
    frame = frame[["size"]].fillna(0.0)
    plain = nn.NetworkClassifier(**given).fit(frame, labels)
    by_class = nn.NetworkClassifier(**given, class_weight={"no": 3, "yes": 1}).fit(
        frame, labels
    )
    by_row = nn.NetworkClassifier(**given).fit(frame, labels, sample_weight=weights)
    assert np.array_equal(by_class.predict_proba(frame), by_row.predict_proba(frame))
    others_have_1 = nn.NetworkClassifier(**given, class_weight={"no": 3})
    scores = others_have_1.fit(frame, labels).predict_proba(frame)
    assert np.array_equal(scores, by_row.predict_proba(frame))
    mean = by_class.predict_proba(frame)[:, 0].mean()
    assert mean > plain.predict_proba(frame)[:, 0].mean()


def test_gaps_that_training_did_not_have_become_the_median():
    x = np.random.default_rng(1).normal(size=(101, 3))
    regressor = nn.NetworkRegressor(effort="quick", epochs=2).fit(x, x[:, 0])
    gap = x[:5].copy()
    filled = x[:5].copy()
    gap[2, 1] = np.nan
    filled[2, 1] = np.median(x[:, 1].astype(np.float32))
    assert np.array_equal(regressor.predict(gap), regressor.predict(filled))


@pytest.mark.parametrize("gaps", [False, True])
def test_rows_that_overflow_when_scaled_are_refused(gaps):
    """Their scores were nan, and a class came of them."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(60, 2)) / 1000
    classifier = nn.NetworkClassifier(effort="quick", epochs=2)
    classifier.fit(np.where(x > 0.002, np.nan, x) if gaps else x, x[:, 0] > 0)
    x[4, 1] = 3e38
    for predict in (classifier.predict, classifier.predict_proba):
        with pytest.raises(
            ValueError, match=r"^row 5, column (1|2 of 2): found 3e\+38, .*not finite"
        ):
            predict(x)


def test_images_are_rows_of_pixels():
    x, y = load_digits(return_X_y=True)
    classifier = nn.NetworkClassifier(
        "1x8x8,conv4,maxpool2,10", epochs=3, learning_rate=0.01
    ).fit(x, y)
    assert classifier.network_.scaling.kind == "pixel"
    assert classifier.score(x, y) > 0.7


@pytest.mark.parametrize("networks", [1, 3])
def test_copies_of_a_network_are_its_model_file(networks, folder):
    draws = np.random.default_rng(2).normal(size=(80, 4))
    ds = nn.load(draws)
    how = {"backend": "seq", "seed": 9, "init": "he", "dtype": "float64", "threads": 1}
    net = nn.Network.for_data(ds, "auto,6:gelu,1", **how)
    nn.train(net, ds, epochs=2, networks=networks)
    net.export(folder / "m.bin")
    for other in copies(net, folder):
        other.export(folder / "copy.bin")
        assert (folder / "copy.bin").read_bytes() == (folder / "m.bin").read_bytes()
        assert other.backend == "seq"
        assert other.init == "he"
        assert other.asked_dtype == "float64"
        assert other.device == net.device
        assert len(other.members) == networks


def test_a_copy_of_the_reference_goes_on_with_its_random_numbers():
    draws = np.random.default_rng(2).normal(size=(80, 3))
    numbers = (draws > 0).astype(float)
    ds = nn.load(numbers, task="binary", dtype="float64", plain=True)
    net = nn.Network("2,3,1", "binary", reference=True)
    other = copy.deepcopy(net)
    nn.train(net, ds, epochs=2), nn.train(other, ds, epochs=2)
    assert np.array_equal(net.vector, other.vector)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["loky", "dask"])
def test_a_grid_search_in_processes_finds_what_one_process_finds(
    frame, labels, backend
):
    grid = {"layers": ["auto,8,1", "auto,20,1"], "learning_rate": [0.01, 0.0001]}
    search = GridSearchCV(
        nn.NetworkClassifier(effort="quick", epochs=10, threads=1), grid, cv=2
    )
    with contextlib.ExitStack() as inside:
        if backend == "dask":
            distributed = pytest.importorskip(
                "distributed", reason="distributed is not installed"
            )
            here = {
                "host": "127.0.0.1",
                "dashboard_address": None,
                "n_workers": 2,
                "threads_per_worker": 1,
            }
            inside.enter_context(
                distributed.Client(
                    inside.enter_context(distributed.LocalCluster(**here))
                )
            )
        inside.enter_context(joblib.parallel_backend(backend, n_jobs=2))
        several = clone(search).set_params(n_jobs=2).fit(frame, labels)
    alone = search.fit(frame, labels)
    assert alone.best_params_["learning_rate"] == 0.01
    expected = alone.cv_results_["mean_test_score"].tolist()
    assert several.cv_results_["mean_test_score"].tolist() == expected
    assert np.array_equal(several.predict_proba(frame), alone.predict_proba(frame))


@pytest.mark.parametrize("tool", TOOLS)
def test_pipelines_stacking_and_calibration(frame, labels, tool):
    model = clone(TOOLS[tool]).fit(frame, labels)
    assert model.score(frame, labels) > 0.8
    assert issparse(SPARSE.fit_transform(frame))
    assert not issparse(DENSE.fit_transform(frame))


@pytest.mark.parametrize(
    "settings, told",
    [
        ({"layers": "auto,8,3"}, "a binary task has 1 output, not 3"),
        ({"learning_rate": -1}, "--learning_rate -1: expected a finite number above 0"),
        ({"patience": 3, "networks": 1}, "needs validation rows"),
        ({"epochs": 0}, "--epochs 0: expected a whole number from 1"),
        ({"layers": "auto,1", "batch_size": 0}, "--batch_number 0: expected"),
        ({"threads": 0}, "--threads 0: expected a whole number from 1"),
        ({"effort": "huge"}, "--effort huge: expected quick, standard or best"),
        ({"effort": "best", "networks": 5}, "effort best: networks is not for it"),
        ({"drop": "prize"}, "did you mean price"),
        ({"class_weight": [1, 2, 3]}, "3 numbers for 2 classes"),
        (lambda x, y: x, "expected \\(X, y\\)"),
        (lambda x, y: (x, y.replace("no", "maybe")), "found class 'maybe'"),
        (lambda x, y: (x[:5], y), "inconsistent numbers of samples"),
        (
            lambda x, y: (x.rename(columns={"price": "cost"}), y),
            "feature names should match",
        ),
    ],
)
def test_wrong_parameters_and_rows_to_evaluate_are_told_by_fit(
    frame, labels, settings, told
):
    """settings: a function, of the rows to evaluate."""
    if callable(settings):
        evaluated = settings(frame, labels)
    else:
        evaluated = None
    if callable(settings):
        given = {"effort": "quick", "epochs": 1}
    else:
        given = settings
    with pytest.raises(ValueError, match=told):
        nn.NetworkClassifier(**given).fit(frame, labels, eval_set=evaluated)


def test_other_columns_and_no_rows_are_refused(fitted, frame):
    for other in (
        frame.drop(columns="kind"),
        frame.rename(columns={"kind": "sort"}),
        frame[frame.columns[::-1]],
    ):
        with pytest.raises(ValueError, match="feature names should match"):
            fitted.predict(other)
    for other in (frame[:0], pl.from_pandas(frame)[:0]):
        with pytest.raises(ValueError, match="no rows, expected"):
            fitted.predict(other)


@pytest.fixture(scope="module")
def sparse_rows():
    features, labels = make_classification(
        300, 8, n_informative=4, n_classes=3, random_state=0
    )
    return csr_matrix(features * (abs(features) > 0.5)), labels


def test_sparse_rows_are_as_their_dense_array_and_refused_where_they_have_no_room(
    sparse_rows, monkeypatch
):
    sparse, labels = sparse_rows
    estimators = sys.modules["nn.train.estimators"]
    given = {"epochs": 5, "validation": None}
    of_sparse = nn.NetworkClassifier(**given).fit(sparse, labels)
    of_dense = nn.NetworkClassifier(**given).fit(sparse.toarray(), labels)
    assert np.array_equal(
        of_sparse.predict_proba(sparse), of_dense.predict_proba(sparse.toarray())
    )
    monkeypatch.setattr(estimators, "_DENSE_VALUES", 100)  # 12 rows at a time
    assert np.allclose(
        of_sparse.predict_proba(csc_array(sparse)),
        of_dense.predict_proba(sparse.toarray()),
        0,
        1e-6,
    )
    several = nn.NetworkClassifier(effort="quick", epochs=5).fit(
        sparse, labels, eval_set=(sparse, labels)
    )
    assert len(several.figures_["val_loss"]) == 5
    monkeypatch.setattr(estimators, "available_memory", lambda: 9000)
    with pytest.raises(
        ValueError,
        match="300 x 8 values .* take 9.6e-06 GB .*; leave out rare columns, as by OneHot",
    ):
        nn.NetworkClassifier(effort="quick").fit(sparse, labels)


def test_a_decision_is_the_logit_beside_that_of_the_threshold(sparse_rows):
    sparse, labels = sparse_rows
    classifier = nn.NetworkClassifier(effort="quick", epochs=20, threshold=0.3).fit(
        sparse, labels == 1
    )
    score = classifier.predict_proba(sparse)[:, 1].astype(np.float64)
    level = classifier.decision_function(sparse)
    logarithms = np.log(score / (1 - score))
    expected = logarithms - np.log(0.3 / 0.7)
    assert np.allclose(level, expected, rtol=1e-5)
    assert np.array_equal(level >= 0, classifier.predict(sparse))
    assert roc_auc_score(labels == 1, level) == roc_auc_score(labels == 1, score)
    several = nn.NetworkClassifier(effort="quick", epochs=5).fit(sparse, labels)
    assert np.array_equal(
        several.decision_function(sparse).argmax(axis=1), several.predict(sparse)
    )
    exponentials = np.exp(several.predict_log_proba(sparse))
    assert np.allclose(exponentials, several.predict_proba(sparse), rtol=1e-5)


def test_what_is_stored_of_a_network_are_plain_values(fitted, frame):
    fitted.predict(frame)  # makes its engine
    state = fitted.network_.__getstate__()
    assert type(state["model"]) is bytes
    assert "FFI" not in repr(state)
    skops = pytest.importorskip("skops.io", reason="skops is not installed")
    stored = skops.dumps(fitted)
    again = skops.loads(stored, trusted=skops.get_untrusted_types(data=stored))
    expected = fitted.network_.parameters().keys()
    assert again.network_.parameters().keys() == expected


def test_importing_nn_needs_no_scikit_learn_or_numpy_and_estimators_name_the_install():
    for program, told in (
        (WITHOUT.replace("NAMES", str(ESTIMATORS)), 2),
        ("import nn, sys; print([*sys.modules])", 0),
    ):
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        )
        assert done.stdout.count('pip install "scikit-learn>=1.6"') == told
        assert told or not {"sklearn", "numpy"} & {*ast.literal_eval(done.stdout)}


def test_arrays_are_tables_without_names():
    rows = np.array([["a", 1.5, "u"], ["b", None, "v"], ["a", 2.5, "v"]] * 10, object)
    ds = nn.load(rows)
    assert ds.x.kinds == ("text", "number")
    assert ds.classes == ["v", "u"]
    assert ds.columns is None
    assert nn.load(rows[:, :2], y=rows[:, 2]).x.kinds == ds.x.kinds
    values = np.arange(12.0).reshape(4, 3) ** 2
    assert np.array_equal(
        nn.load(values, y=values[:, :2], task="regression").y, values[:, :2]
    )


def test_a_data_set_is_of_numbers_and_its_gaps_are_named():
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [4, 5, 6]})
    assert nn.Dataset(frame, [True, False, True], "binary").y.tolist() == [1, 0, 1]
    assert nn.Dataset(frame, pd.Series([1.0, 2.0, 3.0]), "regression").y.shape == (3, 1)
    for x, y in (
        (frame.assign(c=["u", "v", "w"]), [0, 1, 0]),
        (frame, ["yes", "no", "yes"]),
    ):
        with pytest.raises(nn.DataError, match="nn.load"):
            nn.Dataset(x, y, "binary")
    x = np.random.default_rng(3).normal(size=(40, 3))
    ds = nn.Dataset(x, x[:, 0], "regression")
    ds.x[:, 1] = np.nan
    with pytest.raises(nn.DataError, match=r"x\[0, 1\]: found nan, .* nn.load"):
        nn.train(nn.Network.for_data(ds), ds)


@pytest.mark.parametrize("rows", [1, 9, 10, 60])
@pytest.mark.parametrize(
    "fitted_on", ["floats", "sparse floats", "sparse bool", "bool", "objects", "frame"]
)
def test_truth_values_are_read_in_predict_as_in_fit(fitted_on, rows):
    """As numbers 0 and 1, in whichever form they come, of one row or many."""
    from scipy.sparse import csr_matrix

    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    x = rng.random((60, 3)) < 0.5
    y = x @ np.array([1.0, 2.0, 4.0])
    forms = {
        "floats": x.astype(float),
        "sparse floats": csr_matrix(x.astype(float)),
        "sparse bool": csr_matrix(x),
        "bool": x,
        "objects": x.astype(object),
    }
    if fitted_on == "frame":
        forms = {
            "frame": pandas.DataFrame(x, columns=list("abc")),
            "numbers": pandas.DataFrame(x.astype(float), columns=list("abc")),
            "objects": pandas.DataFrame(x.astype(object), columns=list("abc")),
        }
    model = nn.NetworkRegressor(layers="auto,4,1", epochs=2).fit(forms[fitted_on], y)
    expected = model.predict(forms[fitted_on])[:rows]
    assert len(np.unique(expected)) == min(rows, 8) or rows in (9, 10)
    for form in forms.values():
        np.testing.assert_allclose(model.predict(form[:rows]), expected, rtol=1e-6)


@pytest.mark.parametrize("form", ["frame", "dictionary", "records", "array"])
def test_a_network_of_numbers_takes_truth_values(form):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    x = rng.random((40, 2)) < 0.5
    numbers = pandas.DataFrame(x.astype(float), columns=["a", "b"])
    model = nn.fit(
        numbers, x @ np.array([1.0, 3.0]) + 0.25, layers="auto,4,1", epochs=2
    )
    truths = pandas.DataFrame(x, columns=["a", "b"])
    forms = {
        "frame": truths,
        "dictionary": truths.to_dict("list"),
        "records": truths.to_dict("records"),
        "array": x,
    }
    np.testing.assert_allclose(
        model.predict(forms[form]), model.predict(numbers), rtol=1e-6
    )


@pytest.mark.parametrize(
    "settings", [{"effort": "quick"}, {"layers": "auto,4,1", "networks": 2}]
)
def test_a_fitted_network_of_several_members_is_a_model_file(tmp_path, settings):
    """Whose members have the classes, and the type, that the estimator was given."""
    x = np.random.default_rng(0).normal(size=(120, 3))
    y = np.where(x[:, 0] > 0, 5, 3)
    fitted = nn.NetworkClassifier(**settings).fit(x, y)
    fitted.network_.export(tmp_path / "m.bin")
    model = nn.Model.load(tmp_path / "m.bin")
    assert len(model.members) > 1
    assert model.predict(x).tolist() == fitted.predict(x).tolist()
    assert {*model.predict(x).tolist()} == {3, 5}


def test_rows_of_no_weight_name_no_class_and_no_fit_holds_rows_out():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    y = np.array(["a", "b", "c"])[np.arange(60) % 3]
    fitted = nn.NetworkClassifier("auto,3,1", epochs=1, warm_start=True)
    for _ in range(2):  # the second goes on
        fitted.fit(x, y, sample_weight=(y != "b") * 1.0)
        assert fitted.classes_.tolist() == ["a", "c"]
        assert fitted.figures_["rows"] == 40
        assert fitted.figures_["holdout"] == 0
    part = nn.NetworkRegressor("auto,3,1")
    for _ in range(2):
        part.partial_fit(x, x[:, 0])
        assert part.figures_["rows"] == 60
