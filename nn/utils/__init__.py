"""Errors, messages, safe file writing, limits and sizes of the machine: for every
module.

    errors.py        NnError and its kinds, with the exit codes of the command line
    signals.py       Stopped, Interrupted, StopRequest; moments at which signals wait
    messages.py      one line to a person: printable, not too long, logged once
    output_files.py  atomic_file and its like: a file is the old one or the new one,
                     whole; streams; sole_writer
    machine.py       processor, cores, memory; limits on addresses and processes
    packages.py      the packages that some parts need, and how to install them

Imports: nothing. Imported by: core, cluster, layers, settings, data, files, ds,
backends, nn, card, matrix, watch, test, train, terminal, pages, study, commands, cli.
"""

# ruff: noqa: F401 (what other modules take from here)
from __future__ import annotations

from .errors import (
    DataError,
    InputNotFound,
    LayersMismatch,
    NnError,
    NnWarning,
    OutputError,
    RowError,
    SideFileError,
    UsageError,
    network_of,
    speaking_of_flags,
    spoken,
)
from .machine import (
    MORE_THREADS,
    MOST_THREADS,
    NO_ROOM_TO_LOAD,
    asked_threads,
    available_cores,
    available_memory,
    check_room_to_load,
    check_threads,
    default_threads,
    give_back_memory,
    has_address_limit,
    is_for_want_of_memory,
    memory_left,
    private_bytes,
    processor_name,
    resident_bytes,
    spare_addresses,
)
from .messages import (
    LONGEST_MESSAGE,
    MOST_WHOLE,
    axis_texts,
    closest,
    counted,
    cut_line,
    distinct_names,
    figure_text,
    listed,
    log,
    log_line,
    logged_once,
    names_apart,
    os_reason,
    plural,
    printable,
    show,
    target_text,
)
from .output_files import (
    AppendedFile,
    alone_in,
    atomic_file,
    atomic_write,
    check_writable,
    claim,
    claim_file,
    cut_name,
    is_file_name,
    is_stream,
    locked,
    open_file,
    release_locks,
    sha256_file,
    sole_writer,
    stream_or_file,
    temporary_folder,
    wait_for_lock,
    writing,
)
from .packages import needs_package, packages_of
from .signals import (
    Interrupted,
    Stopped,
    StopRequest,
    ctrl_c_to,
    interruption,
    signals_held,
)
