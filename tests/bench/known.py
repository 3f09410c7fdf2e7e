"""All sides of a comparison by their names."""

from __future__ import annotations

from .pack_sides import NnAlone, TorchBatched, TorchVmap
from .sides import Jax, Nn, Numpy, Sklearn, Torch

SIDES = {side.name: side for side in (Nn, NnAlone, Torch, TorchVmap, TorchBatched, Jax, Sklearn, Numpy)}
PEERS = [name for name in SIDES if name != "nn"]
