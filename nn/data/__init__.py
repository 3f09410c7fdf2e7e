"""Data: from the bytes of files to a Dataset, one way.

    source ─┬► csv_table, npy_table ─► table ──┬► columns, targets ─► dataset (all rows in memory) ─► encoding
     bytes  ├► npz, image_files ─────► arrays ─┘                   └► stream ─► row_windows (rows stay in the files)
            └► arrow_table, sqlite_table, frame_table ─► column_table: column_blocks ─► column_reader ─► table

loading goes the whole way, and ds.py is its door; model_data goes it with the schema of a model. formats recognises a
file and names its reader; table_files is the border that table formats keep to; kinds says how the fields of a column
are read. csv_table is made of csv_head, the first lines, and csv_reader, the rows;
csv_pieces reads a large file by several threads. column_table is what formats of
typed columns share: column_blocks says what their fields are (arrow_blocks for those of Arrow), column_reader makes a
Table of them; digest is that of the columns that were read. column_types decides what a column is read as, table_rows
are rows of more than numbers. The training rows give the constants of scaling (numbers alone) or of encoding, by way
of statistics; encoders has the encoder of each kind of column, written_encoders those of numbers and dates as people
write them, which written reads; giveaways are columns that tell the target alone. memory is the budget of --memory.
splits says which rows are trained on.
To add: a kind of column is a class in encoders (and in kinds, if it is read in another way), a file format a class
(table_files.TableFiles) and a line in FORMATS.

Imports: utils, nn_aux, core, layers. Imported by: files, ds, nn, test, train, terminal, study, commands.
"""
