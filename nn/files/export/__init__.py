"""Models for other programs, which need no nn to compute predictions.

    formats.py       export: the writer of a suffix
    onnx_file.py     .onnx: one graph from raw columns to classes with probabilities, or to values
    onnx_graph.py    Graph: constants and operators of a graph
    onnx_inputs.py   raw columns -> what the first layer gets: scaled numbers, codes
    onnx_layers.py   each layer as operators

A network is given whole (nn.Network); only its parameters, layers and facts are read, and no engine is made.

Imports: utils, nn_aux, layers, data. Imported by: commands.
"""
