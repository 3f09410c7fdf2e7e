"""The page of --report and pictures: one file of sentences, tables and pictures, and
what a model's says.

    page.py        Page, Table, Image: HTML, Markdown or JSON
    chart.py       Plot, Line, Axis: pictures as SVG
    model_page.py  the page of a model, and of two models
    task_blocks.py what a test says of it: tables and pictures for each task

Imports: everything from utils to terminal. Imported by: study, commands.
"""
