"""Files that nn writes and reads again: models and checkpoints.

    tensor_file.py   safetensors with one JSON text of facts and a SHA-256 over all:
                     checked whole, or refused
    checks.py        checks of facts, which strangers may have written
    model_file.py    a model: parameters and metadata
    text_model.py    the original program's `.m` text
    suffixes.py      the formats that suffixes of files name, and which of them a file
                     may have
    checkpoint.py    a training's whole state, for one that goes on to the same bytes
    export/          models for other programs; it reads a Network

None of these files knows a Network: they take and give arrays, dictionaries and layers.

Imports: utils, nn_aux, layers, settings, core, data. Imported by: nn, test, train,
terminal, commands.
"""
