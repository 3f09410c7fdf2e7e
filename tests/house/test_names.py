"""The names of nn_aux.py and layers.py are those of the C core."""

import pytest

from nn import nn_aux
from nn.core import extension
from nn.layers import COLUMN_KINDS, LAYER_KINDS

TABLES = {  # type in csrc/nn.h -> the names that Python knows
    "nn_activation": nn_aux.ACTIVATIONS,
    "nn_loss": nn_aux.LOSSES,
    "nn_optimizer": nn_aux.OPTIMIZERS,
    "nn_kind": LAYER_KINDS,
    "nn_column_kind": [f"column_{kind}" for kind in COLUMN_KINDS],
}
WITHOUT_A_NAME = {"NN_REFERENCE"}  # the loss of --reference, which no flag chooses


@pytest.mark.parametrize("build", ["seq", "omp"])
@pytest.mark.parametrize("table", TABLES)
def test_every_name_is_a_constant_and_every_constant_a_name(table, build):
    constants = extension(build)[0].typeof(table).relements
    texts = {f"NN_{name.upper()}" for name in TABLES[table]}
    assert texts == constants.keys() - WITHOUT_A_NAME
