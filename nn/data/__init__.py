"""Data: from the bytes of files to a Dataset, one way.

    source ─┬► csv_table, npy_table ─► table ──┬► columns, targets ─► dataset (all rows in memory) ─► encoding
     bytes  ├► npz, image_files ─────► arrays ─┘                   └► stream ─► row_windows (rows stay in the files)
            └► arrow_table, sqlite_table, frame_table ─► column_table: column_blocks ─► column_reader ─► table

    loading.py      goes the whole way, behind the door ds.py; model_data.py: the same with the columns of a model
    formats.py      FORMATS: how a file is recognised, and its reader; source.py: its bytes; foreign_formats.py: what
                    to do with a file of another format
    table_files.py  what a reader of tables offers; field_types.py: the types that it stores fields as
    csv_table.py    CSV: csv_head.py the first lines, csv_header.py whether the first row is a header,
                    csv_reader.py the rows, csv_pieces.py a large file by threads
    column_table.py formats of typed columns: column_blocks.py what their fields are (arrow_blocks.py those of Arrow),
                    column_reader.py their Table, digest.py
    columns.py      the columns of a table; column_lookup.py: which are meant; row_columns.py: weights, groups and
                    times of the rows; target_columns.py: targets
    type_inference.py    what each column is read as; feature_selection.py: which of them tell nothing;
                    column_types.py: the rules of both; giveaways.py: which tell the target alone
    targets.py      the task, the classes and the values of the targets
    encoding.py     columns -> inputs of a network: encoders.py has an encoder for each kind of column,
                    written_encoders.py those of numbers and dates as people write them (written.py)
    statistics.py   what the training rows tell an encoder; scaling.py: and a table of plain numbers
    table_rows.py   rows of more than numbers
    memory.py       the budget of --memory, which says how many rows of a stream row_windows has in memory
    splits.py       which rows are trained on

To add a kind of column or a file format: docs/developing.md, «To add».

Imports: utils, nn_aux, core, layers. Imported by: files, ds, nn, test, train, terminal, study, commands.
"""
