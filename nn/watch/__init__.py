"""Callbacks: they watch a training, beside the terminal.

    observe.py       Observers: those that --profile, --trace, --history and --logdir
                     ask for; medians of the steps that an engine has timed, layer by
                     layer
    callbacks.py     what a watcher is told, and several as one
    history.py       losses as CSV
    trace.py         what happened when, as a Chrome trace
    tensorboard.py   event files for TensorBoard

Nothing that watches changes a number that is trained.

Imports: utils, nn_aux, layers, backends (TimedStep). Imported by:
train, terminal, study, commands.
"""
