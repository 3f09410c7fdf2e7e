"""Measurements of many networks: benchmarks, sweeps, their pictures and pages, the solar study.

    bench.py    the benchmark's cases; --bench
    plan.py     a plan in JSON or TOML -> its entries
    entry.py    one entry: load, train, time, test
    results.py  the CSV file of results
    trials.py   the CSV file of what --vary tried
    sweep.py    --sweep: plan -> entry, each in a process of its own -> results
    plot.py     what pictures share; plot_results.py of a sweep or trials, plot_model.py of one model and its test
    report.py   pictures and tables -> one HTML page
    solar.py    irradiance series (measured or synthetic) -> data sets

Imports: everything from utils to terminal. Imported by: commands; datasets/solar.py and tests/bench use it too.
"""
