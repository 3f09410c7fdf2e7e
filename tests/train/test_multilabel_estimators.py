"""NetworkClassifier of several yes/no targets, as scikit-learn's MLPClassifier has
them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import make_multilabel_classification
from sklearn.neural_network import MLPClassifier
from sklearn.utils import estimator_checks

import nn

CHECKS = [
    name
    for name in dir(estimator_checks)
    if name.startswith("check_classifiers_multilabel")
]
X, Y = make_multilabel_classification(120, n_classes=3, random_state=0)
SMALL = {"layers": "auto,8,3", "epochs": 30, "learning_rate": 0.02}


@pytest.mark.parametrize("name", CHECKS)
def test_the_checks_of_scikit_learn_for_several_labels_pass(name):
    estimator = nn.NetworkClassifier(effort="quick", epochs=20)
    assert estimator.__sklearn_tags__().classifier_tags.multi_label
    getattr(estimator_checks, name)("NetworkClassifier", estimator)


def test_answers_have_the_shapes_of_mlp_classifier():
    peer = MLPClassifier((8,), max_iter=500, random_state=0).fit(X, Y)
    own = nn.NetworkClassifier(**SMALL).fit(X, Y)
    assert (own.classes_ == peer.classes_).all()
    for method in ("predict", "predict_proba"):
        ours, theirs = [getattr(one, method)(X) for one in (own, peer)]
        assert ours.shape == theirs.shape == (120, 3)
    assert own.predict(X).dtype.kind == "i"
    is_right = (own.predict(X) == Y).all(axis=1)
    assert own.score(X, Y) == is_right.mean()
    assert is_right.mean() > 0.5
    assert ((own.decision_function(X) >= 0) == own.predict(X)).all()


def test_a_score_that_equals_its_threshold_has_the_label():
    own = nn.NetworkClassifier(**SMALL).fit(X, Y)
    scores = own.predict_proba(X)
    for threshold in (float(scores[3, 1]), [float(score) for score in scores[7]]):
        net = own.network_
        net.facts = replace(net.facts, threshold=threshold)
        expected = [
            [int(float(score) >= cut) for score, cut in zip(row, cuts, strict=True)]
            for row, cuts in zip(
                scores, np.broadcast_to(threshold, Y.shape), strict=True
            )
        ]
        assert own.predict(X).tolist() == expected
        assert nn.Model(net).predict(X).astype(int).tolist() == expected
        assert ((own.decision_function(X) >= 0) == own.predict(X)).all()
    assert expected[7] == [1, 1, 1]


def test_the_score_of_a_model_is_the_share_of_rows_that_are_wholly_right():
    own = nn.NetworkClassifier(**{**SMALL, "epochs": 2}).fit(X, Y)
    are_right = own.predict(X) == Y
    share = are_right.all(axis=1).mean()
    assert share != are_right.mean()
    assert own.score(X, Y) == share
    assert nn.Model(own.network_).score(X, Y) == share


def test_rows_that_choose_the_epoch_parts_and_a_sparse_y_are_labels_too():
    judged = nn.NetworkClassifier(**SMALL).fit(
        X[:80], Y[:80], eval_set=(X[80:], Y[80:])
    )
    assert judged.figures_["best_epoch"]
    sparse = nn.NetworkClassifier(**SMALL).fit(X, csr_matrix(Y))
    dense = nn.NetworkClassifier(**SMALL).fit(X, Y)
    assert (sparse.predict_proba(X) == dense.predict_proba(X)).all()
    parts = nn.NetworkClassifier(layers="auto,8,3")
    parts.partial_fit(X[:60], Y[:60], classes=range(3)).partial_fit(X[60:], Y[60:])
    assert parts.predict(X).shape == (120, 3)


def test_a_label_that_no_row_has_is_learned_as_such():
    y = Y * [1, 0, 1]
    assert not nn.NetworkClassifier(**SMALL).fit(X, y).predict(X)[:, 1].any()


@pytest.mark.parametrize(
    "y, fault",
    [
        (Y[:, 0], "one class of each row beside several labels"),
        (Y[:, :2], "found 2 labels, expected 3"),
        (Y + 1, "several labels are told by 0 and 1"),
    ],
)
def test_targets_of_another_kind_are_refused(y, fault):
    parts = nn.NetworkClassifier(layers="auto,8,3")
    parts.partial_fit(X, Y, classes=range(3))
    with pytest.raises(ValueError, match=fault):
        parts.partial_fit(X, y)


def test_classes_have_weights_in_the_forms_of_scikit_learn():
    """One for all labels, of 0 and of 1, or one for each label."""

    def scores(weights):
        return nn.NetworkClassifier(**SMALL, class_weight=weights).fit(X, Y)

    none = scores(None).predict_proba(X)
    one = scores({1: 5}).predict_proba(X)
    for same in ([1, 5], "1,5", [{0: 1, 1: 5}] * 3, [1, 5] * 3):
        assert (scores(same).predict_proba(X) == one).all()
    assert (one.mean(axis=0) > none.mean(axis=0)).all()
    each = scores([{}, {1: 9}, {0: 9}]).predict_proba(X)
    assert each[:, 1].mean() > none[:, 1].mean()
    assert each[:, 2].mean() < none[:, 2].mean()
    assert (scores("balanced").predict_proba(X) != none).any()
    with pytest.raises(ValueError, match="4 numbers for 3 yes/no targets"):
        scores([{}, {1: 2}])
