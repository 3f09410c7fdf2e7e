"""The settings of a run: what each is called, may be and is by default, in one record
each.

    flags.py      MODES, FLAGS: a record for each mode and setting, a flag and a keyword
                  in Python; what --reference is
    values.py     the kinds of their values: how a text is read, what may be

Imports: utils, nn_aux, layers. Imported by: core, data, files, ds, backends, nn, test,
train, terminal, pages, study, commands, cli.
"""
