"""Why a model says what it says, by raw columns: contributions of each prediction, importance, curves.

    columns.py     names and raw values of columns; background.py: rows to compare with
    values.py      what is explained of a row, and rows of which some columns are another row's
    shapley.py     Shapley values of each row's prediction
    importance.py  how much a metric loses without a column, and partial dependence

Imports: data, nn, test and what is below. Imported by: commands.
"""

from .background import background_rows
from .importance import Importance, curves, importance
from .shapley import Explanation, explain

__all__ = ["Explanation", "Importance", "background_rows", "curves", "explain", "importance"]
