"""Data: from the bytes of files to a Dataset, one way.

    open ──────────► read ────────► decide ───────► make ──────────► encode
    formats, source  lookup, a      kinds,          loading, fields, encoding,
                     TableSource    targets         dataset          encoders, records

    column.py        the one form of a table, Column and Table; Wanted: what is read
    loading.py       goes the whole way, behind the door ds.py; the same with the columns of a model
    formats.py       FORMATS: how a file is recognised, and what reads it, or what to do instead
    source.py        the bytes of files, also of those that lie elsewhere, and standard input; what a format offers,
                     TableSource
    csv_table.py     CSV: csv_head.py the first lines, and whether the first of them is a header; the rows, in C, those
                     of a large file by threads
    typed.py         formats of typed columns: from blocks, rows of one column, to a Table. arrow.py: Parquet, Arrow,
                     ORC; sqlite.py; frames.py: data frames and JSON lines
    arrays.py        Arrays, what readers of images and arrays give: NPZ, IDX, CIFAR-10, folders; NPY, a table
    lookup.py        which columns of a file are meant, and what for
    kinds.py         what each column is, by its fields or by a person's choice, or why it is left out; written.py:
                     numbers, dates and ordered words as people write them
    fields.py        odd words and gaps: what is refused, what is told; weights, groups and times of the rows; columns
                     that give the target away, numbers that may stand for gaps
    targets.py       the task, the classes and the values of the targets
    dataset.py       Dataset, Schema, Choices; TableRows, rows of more than numbers; the digest of columns
    encoding.py      columns -> inputs of a network: an encoder for each kind of column, and what the training rows
                     tell it
    scaling.py       inputs that are plain numbers, scaled
    records.py       arrays of rows in memory or, where it has no room for them, in mapped files; the --memory budget
    splits.py        which rows are trained on

To add a kind of column or a file format: docs/developing.md, «To add».

Imports: utils, nn_aux, core, layers, settings. Imported by: files, ds, nn, test, train, terminal, pages, study,
commands.
"""
