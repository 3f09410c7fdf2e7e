"""`python -m tests.bench.arena`: the defaults of nn beside other programs' on tables,
with Elo, ranks and times.

    python -m tests.bench.arena --lite --folder TABLES --plot arena.png
    tests/bench/arena/development.txt python -m tests.bench.arena german.csv.gz:-1
    titanic.csv.gz:survived:-alive scikit-learn:wine

The protocol is TabArena's (arXiv 2506.16791): three folds, ten times below 2,500 rows,
else three times, or --lite, the first fold; 1 - ROC-AUC for two classes, log loss for
more, RMSE for numbers; Elo by all pairs of methods on a table, 1000 for the forest. A
table is a CSV file, then its target's name or index (the last column), columns to leave
out (-name), `regression` or `classes`; a table of scikit-learn or statsmodels
(PACKAGE:NAME:target); or a list of those (.txt), one a line. Results are kept in a file
of JSON lines, so that a run goes on where it stopped; eights.jsonl, of a GPU, is such a
file to begin with. A method that fails has the worst place; one that took over ten
minutes a fit is left out.
"""
