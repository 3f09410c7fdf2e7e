"""Models for other programs, which need no nn to compute predictions.

    formats.py       export: the writer of a suffix
    columns.py       what every format asks of a network: names, places in a file,
                     constants
    onnx_file.py     .onnx: one graph from raw columns to classes with probabilities, or
                     to values
    onnx_layers.py   layers and activations as operators
    onnx_graph.py    Graph: constants and operators of a graph
    onnx_members.py  the dense networks of an ensemble as batched products
    onnx_sureness.py the ends of intervals of values, or sets of classes, of a level
    onnx_inputs.py   raw columns -> what the first layer gets: scaled numbers, codes
    c_file.py        .c: one file of C99 for the same; layers as structs
    c_comment.py     the comment in front of it
    c_text.py        constants as C
    c_inputs.py      columns, and the words that they may hold, as structs
    text_file.py     .m, the original program's text, which knows weights alone
    model.c          the C file of every network: interface, types, predictions; the
                     definitions of an example, which it includes (example_interface.h,
                     example_values.h), give way to those of the network

A network is given whole (nn.Network); only its parameters, layers and facts are read,
and no engine is made.

Imports: utils, nn_aux, layers, core, data, files. Imported by: nn, test, commands.
"""
