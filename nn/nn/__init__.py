"""Network: layers, parameters and what a model must know to read raw data.

    network.py     Network: settings, layers, engine, members, prediction, files

Imports: everything below, from backends to utils. Imported by: train, study, commands.
"""

from __future__ import annotations

from .network import FACTS, PREDICT_BLOCK, Network

__all__ = ["FACTS", "PREDICT_BLOCK", "Network"]
