"""Background rows: what a prediction is compared with. They are people's data, so that no model file holds them."""

from __future__ import annotations

import numpy as np

from ..data.loading import load_for, training_file
from ..utils import InputNotFound, UsageError

ROWS = 100


def background_rows(net, source=None, seed: int = 0, model="the model"):
    """Return at most 100 rows, drawn by the seed, of a file, of other data, or (None) of the training file.

    model: what messages call the model, beside which the training file may be. Raises UsageError where there is none.
    """
    if source is None:
        try:
            source = training_file(net, model)
        except (InputNotFound, UsageError) as error:
            reason = str(error).partition(";")[0]
            raise UsageError(f"no background rows: {reason}; give some with --background") from None
    x = source if hasattr(source, "dtype") else load_for(net, source, labelled=False).x
    chosen = np.random.default_rng(seed).choice(len(x), min(ROWS, len(x)), replace=False)
    return x[np.sort(chosen)]
