"""Models for other programs, which need no nn to compute predictions.

    formats.py       export: the writer of a suffix
    columns.py       what every format asks of a network: names, places in a file, constants
    onnx_file.py     .onnx: one graph from raw columns to classes with probabilities, or to values
    onnx_graph.py    Graph: constants and operators of a graph
    onnx_inputs.py   raw columns -> what the first layer gets: scaled numbers, codes
    onnx_layers.py   each layer as operators
    c_file.py        .c: one file of C99 for the same, and its comment in front
    c_text.py        constants as C, and templates of which only needed parts are kept
    c_inputs.py      columns, and the words that they may hold, as structs
    c_layers.py      layers as structs, and the room that they need
    model.c          the template of the C file: interface, types, predictions; it includes layers.c, inputs.c (what the
                     first layer gets of a row), words.c and
    program.c        the program that reads CSV: program_rows.c cuts it into fields, program_fields.c reads those

A network is given whole (nn.Network); only its parameters, layers and facts are read, and no engine is made.

Imports: utils, layers, data. Imported by: commands.
"""
