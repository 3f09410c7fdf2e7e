"""C programs around an exported model: that of the guide beside --predict, and hostile
rows under sanitizers."""

import re
from pathlib import Path

import numpy as np
import pytest
from support import c_models
from support.c_models import (
    SANITIZED,
    answers,
    check_program,
    compiled,
    fields,
    program,
    run,
    trained,
)
from support.command_line import REPOSITORY, argv
from support.mixed_table import read_raw
from support.networks import network

import nn

GUIDE = (REPOSITORY / "docs" / "deploy.md").read_text(encoding="utf-8")
(OF_THE_GUIDE,) = re.findall(r"^```c\n(.*?)^```$", GUIDE, re.M | re.S)


def guides_program(folder, rows: list[str], *flags: str) -> Path:
    """The guide's program for a model of these rows of CSV, under sanitizers."""
    text = "\n".join(rows) + "\n"
    (folder / "old.csv").write_text(text)
    trained(folder, folder / "old.csv", *flags)
    (folder / "predict.c").write_text(OF_THE_GUIDE, encoding="utf-8")
    return compiled(
        folder / "predict.c", str(folder / "m.c"), *SANITIZED, output="predict"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "goal, flags",
    [
        (lambda k: "yes" if (k * 5) % 11 > k / 7 else "no", ()),
        (lambda k: f"class {min(2, k % 11 // 4)}", ("--networks", "2")),
        (lambda k: (k * 5) % 11 - k / 7, ("--dtype", "float64")),
    ],
)
def test_the_guides_program_prints_what_predict_writes(goal, flags, folder):
    rows = ["a,b,goal"]
    for k in range(60):
        rows.append(f"{k / 7},{(k * 5) % 11},{goal(k)}")
    command = guides_program(folder, rows, *flags)
    done = run(command, (folder / "old.csv").read_bytes())
    assert done.returncode == 0
    assert done.stderr == b""
    expected = c_models.predicted(folder, folder / "old.csv")
    names = [
        "row",
        *(name for name in expected if name.startswith(("predicted", "score"))),
    ]
    lines = done.stdout.decode().splitlines()
    columns = list(zip(*(line.split(",") for line in lines), strict=True))
    if "score" in " ".join(names):
        texts = {"row", "predicted"}
    else:
        texts = {"row"}
    results = {}
    for name, values in zip(names, columns):
        results[name] = list(values) if name in texts else list(map(float, values))
    c_models.check_agreement(results, expected, c_models.SINGLE)


@pytest.mark.slow
def test_the_guides_program_refuses_hostile_rows(folder):
    rows = ["a,b,goal"]
    for k in range(60):
        rows.append(f"{k / 7},{(k * 5) % 11},{k % 2}")
    made = guides_program(folder, rows)
    plain = run(made, "a,b\n1.5,2\n")
    assert plain.returncode == 0
    assert plain.stdout.count(b"\n") == 1
    for text in (
        "a,b\n1.5,2",
        "\n1.5,2,7,text\r\n",
        '"a""b"\n 1.5, 2,',
        "1,2\n+15e-1,2.000",
    ):
        assert run(made, text).stdout == plain.stdout, text
    for text in ("a,b", "", "\0"):
        assert run(made, text).returncode == 0
        assert run(made, text).stdout == b""
    model = nn.Model.load(folder / "m.bin")
    median = model.network.medians[0]
    gap_answer = run(made, "nan,2").stdout
    result = run(made, f"{median:.17g},2")
    assert gap_answer == result.stdout
    assert gap_answer != plain.stdout
    long = "1" * (1 << 21)
    cases = (
        *(
            "1.5",
            "1.5,",
            ",",
            " ",
            "1.5,2x",
            "1.5;2",
            "1.5,word",
            '"1.5","2"',
            "\0",
            "1.5,\0002",
            "\xff,\xfe",
        ),
        *(
            "1.5,-inf",
            "1.5,1e999",
            "1.5,1.7e308",
            f"1.5,{long}",
            long,
            "x" * (1 << 20),
            "," * (1 << 20),
        ),
    )
    for text in cases:
        for end in ("", "\n", "\r\n", "\n1.5,2\n"):
            done = run(made, f"a,b\n{text}{end}".encode("latin-1"))
            assert done.returncode == 65, text[:40]
            assert done.stdout == b"", text[:40]
            assert done.stderr.count(b"\n") == 1, text[:40]
            assert done.stderr.startswith(b"row 0: "), done.stderr


def test_quotes_and_hostile_names(folder):
    words = [
        'a,""b""',
        "x */ y",
        "??/",
        "tab\\there",
        "Zürich – €",
        "1.50",
        "two\nlines",
    ]
    names = ['"so, ""said"""', '"/* */ ??/ #include ""example_values.h"""', "goal"]
    given = ['yes, ""sure""', "no\\"]
    rows = []
    for k in range(120):
        rows.append(f'"{words[k % 7]}",{k % 5},"{given[k % 7 > 2]}"')
    text = "\n".join([",".join(names), *rows]) + "\n"
    (folder / "old.csv").write_text(text, encoding="utf-8")
    trained(folder, folder / "old.csv", "--categories", "0")
    check_program(folder, folder / "old.csv")
    text = (folder / "old.csv").read_text(encoding="utf-8")
    windows = text.replace("1.50", "1.5").encode("cp1252")
    (folder / "windows.csv").write_bytes(windows)
    check_program(folder, folder / "windows.csv")


NUMBERS = [
    *(
        sign * size
        for sign in (1, -1)
        for size in (
            0.0,
            5e-324,
            1e-30,
            0.5,
            1,
            255.5,
            2**31,
            2**63,
            1e15,
            3.4e38,
            3.5e38,
            1.7e308,
            np.inf,
        )
    ),
    np.nan,
]
WORDS = [
    b"",
    b"NA",
    b"?",
    b"never seen",
    b"RED",
    b"re",
    b"redd",
    b"red\n",
    b"so, s",
    b"\xc3",
    b"\xc3\x9c",
    b"\xff\xfe",
    b"-",
    b".",
    b"-.",
    b"0.",
    b"-0.0",
    b"1.5000",
    b"00.10",
    b"1." + b"0" * 9999,
    b"a" * 100_000,
    b"yes",
    b"yES",
    b"place 0",
    b"place",
    b"%s%n",
    b"\x01\x7f",
    b"1e999",
]


def hostile(rows: list[list]) -> list[list]:
    """Rows of which one value, or all, are hostile: words and numbers in columns of
    either kind."""
    fields_of_rows = [*WORDS, *NUMBERS]
    width = len(rows[0])
    results = []
    for k, field in enumerate(fields_of_rows):
        for place in range(width):
            row = list(rows[k % len(rows)])
            row[place] = field
            results.append(row)
    for field in fields_of_rows:
        results.append([field] * width)
    return results


def check_hostile(folder, net, rows: list[list]) -> list[int]:
    """Each row is predicted by finite numbers or refused, by the codes that are
    returned; sanitizers say nothing."""
    made = program(folder / "m.c", *SANITIZED)
    codes, outputs = answers(made, net, hostile(rows))
    assert {-1, 0} & set(codes)
    for code in codes:
        assert -1 <= code <= net.inputs
    good = np.array(codes) == 0
    numbers = np.array(
        [values for values in outputs.values() if not isinstance(values[0], str)]
    )
    assert np.isfinite(numbers[:, good]).all()
    # no terminator where one must be
    cuts = (fields(rows)[:-1], fields(rows[:1])[:5], b"w", b"d", b"")
    for cut in cuts:
        assert run(made, cut).returncode == 0
    return codes


@pytest.mark.slow
@pytest.mark.parametrize(
    "target, flags",
    [
        (
            "two",
            argv(
                "--networks 2 --validation 0.2 --calibrate temperature --number_embedding waves3"
            ),
        ),
        (
            "three",
            argv("--layers auto,7:gelu,5:silu,3:softmax --number_embedding pieces4"),
        ),
        ("number", ["--dtype", "float64", "--clip"]),
    ],
)
def test_hostile_rows_of_tables(target, flags, tables, folder):
    old, _ = tables(target)
    trained(folder, old, *flags)
    net = nn.Model.load(folder / "m.bin").network
    kinds = [encoder.reads for encoder in net.encoding.encoders]
    raw = [read_raw(old)[name][:3] for name in net.encoding.names]
    rows = []
    for k in range(3):
        rows.append(
            [
                column[k].encode() if kind == "text" else float(k)
                for kind, column in zip(kinds, raw)
            ]
        )
    for code, row in zip(check_hostile(folder, net, rows), hostile(rows)):
        infinite = []
        for place, field in enumerate(row):
            if isinstance(field, float) and np.isinf(field):
                infinite.append(place)
        assert not infinite or code == infinite[0] + 1 or 0 < code < infinite[0] + 1


def test_hostile_numbers_of_classes_have_no_name(folder):
    net = network("2,1:sigmoid", dtype="float64", task="binary")
    nn.export(net, folder / "m.c")
    (folder / "names.c").write_text(
        '#include "m.c"\n#include <limits.h>\nint main(void)\n{\n    const nn_real none[NN_OUTPUTS] = {NAN};\n'
        "    const int odd = nn_class_name(-1) || nn_class_name(NN_CLASSES) || nn_class_name(INT_MIN);\n"
        "    return odd || nn_class_name(INT_MAX) || !nn_class_name(nn_class(none))\n"
        '        || nn_code(INT_MIN, "") != -1 || nn_code(INT_MAX, "") != -1;\n}\n'
    )
    made = compiled(folder / "names.c", *SANITIZED, output="names")
    assert run(made, "").returncode == 0
