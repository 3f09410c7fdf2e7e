"""Between a person and the commands: flags in, lines and tables out.

    parser.py    the parser, the help and the checks, made from the table of settings
    config.py    --config: flags from a JSON or TOML file
    progress.py  the progress of a training and of --effort: a bar on a terminal, lines
                 in a pipe
    tables.py    tables on stdout: tests, models, networks
    figures.py   figures as text, there and in reports
    network_facts.py  facts of a network, there and in reports
    console.py   the first lines of a run, warnings

Progress and remarks go to stderr, results to stdout. Imports: everything from utils to
watch. Imported by: pages, study, commands, cli.
"""
