"""Training: what a call of `train` computes.

    call.py, data ─► plan.py ─► data/prepared.py ─► run.py, member.py ─► combine.py

    call.py        train, train_many: what is asked for, checked, planned, run, combined
    options.py     Options: the settings that change the result, defaults filled in;
                   Monitor: which epoch is the best
    plan.py        Plan: the trainings that a call asks for, each a Trial with its
                   network, settings and rows; a planner for each way to make several
    vary.py        Variation: how --vary draws the settings of each
    rows.py        LoadedRows: prepared rows in an engine, and those that judge; which
                   rows are trained on
    run.py         Run: the networks of a plan, epoch by epoch: stops, checkpoints,
                   callbacks
    member.py      Member: one network of a run: its epochs, what judges them, where it
                   stands
    engines.py     Ask, what it wants computed next; Engines and Ranks, which compute
                   what several ask for
    common_epoch.py  the epoch that all folds keep, and those that the others choose for
                     the figures of each
    search.py      which networks are given up early, and which of the others are chosen
    combine.py     Combined: what the networks of a plan become; the figures of a
                   training
    decision.py    after the last epoch: the temperature of the probabilities, the
                   threshold of class 1
    candidates.py  Candidate: networks and trainings that --effort tries, for tables and
                   for images
    effort_plan.py  EffortPlan: which of them a data set gets, their networks, settings
    duration.py    how many seconds they will take here
    effort.py      Effort: network, length of training and members chosen by
                   cross-validations, or validation rows
    chosen.py      Chosen: how often each candidate counts, the model that they become
    going_on.py    going on from a model: what it has decided, and the settings that its
                   networks keep
    asked.py       whether --effort chooses, or one training is described: for the
                   command, fit and the estimators
    fit.py         fit: nn --train, from Python
    estimators.py  NetworkClassifier, NetworkRegressor: training and prediction as
                   scikit-learn wants them

Imports: everything below, from test to utils. Imported by: study, commands.
"""

from __future__ import annotations

from ..utils import StopRequest
from .call import train, train_many

__all__ = ["StopRequest", "train", "train_many"]
