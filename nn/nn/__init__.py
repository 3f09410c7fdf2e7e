"""Network: layers, parameters and what a model must know to read raw data.

    network.py     Network: its settings, members, engine; its methods are the
                   functions of the stages below
    parameters.py  the parameters as one vector: initial values, views by layer and by
                   name
    prediction.py  raw rows -> rows as the engine takes them -> outputs in the targets'
                   units, averaged over members
    facts.py       Facts: what a network knows of its data and its training, the record
                   of which a model file keeps every field
    crossed.py     Crossed: the fold of each row of a cross-validation and its scores,
                   which a model keeps
    model.py       network -> model file -> network

network.py imports the others of this folder, none of them imports it.
Imports: everything below, from backends to utils. Imported by: card, test, train,
terminal, pages, study, commands.
"""

from __future__ import annotations

from .facts import FACTS, remember
from .network import Network
from .prediction import PREDICT_BLOCK

__all__ = ["FACTS", "PREDICT_BLOCK", "Network", "remember"]
