"""Training: what a call of `train` computes.

    options.py     Options: the settings that change the result, defaults filled in;
                   Monitor: which epoch is the best
    rows.py        TrainingRows: split, scaled, weighted, loaded; what the network must
                   know to read such data again
    means.py       means of the targets by words, those of training rows out of fold
    decision.py    after the last epoch: the temperature of the probabilities, the
                   threshold of class 1
    call.py        train, train_many: a call's settings checked, and the run that it
                   becomes
    run.py         Run: the networks of a call, epoch by epoch: stops, checkpoints,
                   callbacks
    member.py      Member: one network of a run: its rows, its epochs, what judges them,
                   where it stands
    engines.py     Ask, what it wants computed next; Engines and Ranks, which compute
                   what several ask for
    ensemble.py    Ensemble: the networks of --networks, --vary and --folds, their
                   decisions and metrics
    search.py      which networks are given up early, and which of the others are chosen
    vary.py        Variation: how --vary draws the settings of each
    folds.py       figures of a cross-validation
    common_epoch.py  the epoch that all folds keep, and those that the others choose for
                     the figures of each
    crossed.py     the temperature and threshold of each fold, found on the rows of the
                   others; standard errors
    learned.py     learned: whether the loss is better than that of the class shares or
                   the mean; the warning if not
    candidates.py  Candidate: networks and trainings that --effort tries, for tables and
                   for images
    effort.py      Effort: network, length of training and members chosen by
                   cross-validations, or validation rows
    fit.py         fit and Model: nn --train and a model file, from Python
    estimators.py  NetworkClassifier, NetworkRegressor: training and prediction as
                   scikit-learn wants them

Imports: everything below, from test to utils. Imported by: study, commands.
"""

from __future__ import annotations

from ..utils import StopRequest
from .call import train, train_many

__all__ = ["StopRequest", "train", "train_many"]
