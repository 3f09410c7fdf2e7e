"""Training: what a call of `train` computes.

    options.py     Options: the settings that change the result, defaults filled in
    rows.py        TrainingRows: split, scaled, loaded; what the network must know to read such data again
    weights.py     how much each row and class counts in the loss
    validation.py  Monitor: the metric of the rows apart from training, the best epoch, early stopping
    judging.py     Judge: loss and metric of these rows after each epoch
    decision.py    after the last epoch: the temperature of the probabilities, the threshold of class 1
    call.py        train: a call's settings checked; the training of one network, or of several
    asks.py        Ask: what a training wants its engine to compute next
    loop.py        Training: epoch after epoch, stops, checkpoints, figures
    pack.py        PackTraining: several networks together, each as in a Training; pack_limits.py: what they cannot do
    pack_rows.py   PackRows: the rows of each; pack_engines.py: PackEngines, what computes them
    pack_ranks.py  PackRanks: the ranks that share them out
    pack_members.py  PackMembers: how far each is, which are left, their figures
    vary.py        Variation: how the settings of each are drawn; trials.py: the settings of each
    halving.py     SuccessiveHalving: the worse networks are given up early; selection.py: those that go together
    folds.py       figures of a cross-validation
    learned.py     learned: whether the loss is better than that of the class shares or the mean; the warning if not
    effort.py      Effort: network, length of training and members chosen for a table, by cross-validations
    estimators.py  NetworkClassifier, NetworkRegressor: training and prediction as scikit-learn wants them

Imports: everything below, from test to utils. Imported by: study, commands.
"""

from __future__ import annotations

from ..utils import StopRequest
from .call import train
from .loop import Training

__all__ = ["StopRequest", "Training", "train"]
