"""Measurements of many networks: benchmarks, sweeps, their pictures and pages, the solar study.

    bench.py    the benchmark's cases; --bench
    results.py  the CSV file of results
    sweep.py    --sweep: a plan -> entries, each in a process of its own: load, train, time, test -> results
    chart.py    pictures as SVG; page.py: a page of texts, tables and pictures as HTML, Markdown or JSON
    model_page.py   the page of a model; sweep_page.py: of a sweep
    solar.py    irradiance series (measured or synthetic) -> data sets

Imports: everything from utils to terminal. Imported by: commands; datasets/solar.py and tests/bench use it too.
"""
