"""Data: from the bytes of files to a Dataset, one way.

    open ──────────► read ────────► decide ───────► make ──────────► encode
    formats, source  lookup, a      kinds,          loading, fields, statistics,
                     TableSource    targets         dataset          encoding, records

    column.py        the one form of a table, Column and Table; Selection: what is read
    loading.py       goes the whole way, behind the door ds.py; the same with the
                     columns of a model
    formats.py       FORMATS: how a file is recognised, and what reads it, or what to do
                     instead
    source.py        the bytes of files, wherever they lie; what a format offers,
                     TableSource
    csv_table.py     CSV: csv_head.py the first lines; the rows, in C
    typed.py         formats of typed columns: arrow.py, sqlite.py, excel.py;
                     frames.py: data frames and JSON
    arrays.py        Arrays, what readers of images and arrays give; NPY, a table
    pictures.py      files of pictures and folders of them; pixels.py: what a model
                     keeps of how they were read
    lookup.py        which columns of a file are meant, and what for
    kinds.py         what each column is, or why it is left out; written.py: numbers and
                     dates as people write them
    fields.py        odd words and gaps; remarks.py: remarks on columns; roles.py:
                     weights, groups and times of the rows, and rows that are left out
    targets.py       the task, the classes and the values of the targets; labels.py:
                     several of two classes each
    schema.py        what is known of columns before their rows are read, and said
    dataset.py       Dataset, and the digest of columns; table_rows.py: TableRows, rows
                     of more than numbers
    encoding.py      columns -> inputs of a network; encoders.py: an encoder for each
                     kind of column; statistics.py: of the training rows, by which they
                     are decided; calendar.py: parts and cycles of dates
    scaling.py       inputs that are plain numbers, scaled; medians.py: what a gap among
                     them becomes
    word_means.py    means of the targets by words, those of training rows out of fold
    checks.py        what a training asks of its data, and what it remarks on
    prepared.py      Prepared: rows made ready for a training, once for all networks
                     that read them alike; row_reader.py: raw rows as an engine takes
                     them; given_rows.py: rows that somebody gives to a prediction;
                     row_memory.py, row_encoder.py: a row alone, in microseconds;
                     far_values.py: the value of a row that is furthest out
    causes.py        causes in the data that keep any network from learning
    records.py       arrays of rows in memory or, where it has no room for them, in
                     mapped files; the --memory budget
    splits.py        which rows are trained on, by class, labels, group, time;
                     row_hashes.py: hashes by which a model knows them later
    profiles.py      how the values of each column are distributed in the training rows
    twins.py         rows of equal inputs and target, which lie in one fold

To add a kind of column or a file format: docs/developing.md, «To add».

Imports: utils, nn_aux, core, layers, settings. Imported by: files, ds, nn, card, test,
train, terminal, pages, study, commands.
"""
