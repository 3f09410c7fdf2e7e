"""Measurements of many networks: benchmarks, sweeps and their page, the solar study.

    bench.py    the benchmark's cases; --bench
    results.py  the CSV file of results
    sweep.py    --sweep: a plan -> entries, each in a process of its own: load, train,
                time, test -> results
    sweep_page.py   the page of a sweep, with its pictures
    studies.py  --study: the plan of a founding study, run as --sweep does
    then_and_now.py     its figures of then beside those of now; its page
    images.py   synthetic images -> data sets
    solar.py    irradiance series (measured or synthetic) -> data sets

Imports: everything from utils to pages. Imported by: commands; datasets/solar.py and
tests/bench use it too.
"""
