"""Test a network on rows, and explain what it predicts by raw columns.

    reports.py     the metrics of a network on a data set
    out_of_fold.py test, and rows of a training by the networks that do not know them
    sureness.py    intervals of values and sets of classes, and how many rows they hold
    values.py      the value of a prediction that is explained, and rows of which some
                   columns are another row's
    shapley.py     contributions of columns to each prediction
    compare.py     two models on the same rows
    drift.py       whether rows are like those of a training, by column and row by row
    errors.py      where a network errs: groups, calibration, cut-offs, residuals
    trained_rows.py  which of some rows a network was trained on
    learned.py     whether a network is better than outputs that are the same for all
                   rows; the warning if not
    model.py       Model: the content of a model file, with all of this as its methods
    importance.py  how much a metric loses without a column, and partial dependence

Imports: everything from utils to matrix. Imported by:
train, pages, study, commands.
"""

from .out_of_fold import test
from .reports import (
    QUICK,
    binary_report,
    check_threshold,
    figures_of,
    multiclass_report,
    regression_report,
    remarks,
    scores_of,
    tested,
    truth_and_scores,
    warn_of_trained,
    without_remarks,
)

__all__ = [
    "QUICK",
    "binary_report",
    "check_threshold",
    "figures_of",
    "multiclass_report",
    "regression_report",
    "remarks",
    "scores_of",
    "test",
    "tested",
    "truth_and_scores",
    "warn_of_trained",
    "without_remarks",
]
