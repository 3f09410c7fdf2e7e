"""The settings of a run: what each is called, may be and is by default, in one record each.

    flags.py      FLAGS: a record for each setting, which is a flag and a keyword in Python
    values.py     the kinds of their values: how a text is read, what may be
    reference.py  --reference: what it stands for, what the original program does not have

Imports: utils, nn_aux, layers. Imported by: core, data, files, ds, backends, nn, watch, test, train, terminal, study,
commands, cli.
"""
