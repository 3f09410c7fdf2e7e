"""The documents: their commands run, their links lead somewhere, and their lists are
the program's own.

Every ```sh block is run by bash in a folder of its own, where the names that documents
use (CC.csv, iris.csv, MNIST's files) are small stand-ins, and programs that install or
need a cluster are replaced by stubs. The comment `<!-- flags only: REASON -->` before a
block means that its flags are read and nothing is computed.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from itertools import dropwhile, takewhile
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from support import command_line
from support.command_line import ONE, REPOSITORY, environment, succeed

from nn import nn_aux
from nn.commands.drift import DRIFTED
from nn.commands.stopped import RUN_AGAIN
from nn.commands.use import CANNOT_TELL, WORSE
from nn.files import model_file
from nn.layers import LAYER_KINDS
from nn.settings.flags import BY_NAME, FLAGS, GONE, MODES
from nn.utils import (
    DataError,
    InputNotFound,
    NnError,
    OutputError,
    UsageError,
    packages,
)

PAGES = "*.md", "docs/*.md", "datasets/README.md", "slurm/README.md"
GUIDES = sorted(path for page in PAGES for path in REPOSITORY.glob(page))
# of the code
MAPS = [
    REPOSITORY / folder / "README.md"
    for folder in ("csrc", "nn/backends/cuda", "tests")
]
DOCUMENTS = GUIDES + MAPS
OTHERS_FLAGS = {"mpi", "gpus-per-node", "gpus-per-task"}  # of srun and sbatch


def name(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


class Block(NamedTuple):
    """A fenced block of a document."""

    document: str
    line: int
    language: str
    text: str
    flags_only: bool

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


def blocks(path: Path) -> list[Block]:
    """The fenced blocks of a document, in order."""
    text = path.read_text()
    matches = re.finditer(
        r"(<!-- flags only: [^>]+ -->\n)?^```(\w+)\n(.*?)^```$", text, re.M | re.S
    )
    return [
        Block(
            name(path),
            text.count("\n", 0, m.start(2)) + 1,
            m[2],
            m[3],
            m[1] is not None,
        )
        for m in matches
    ]


BLOCKS = [block for path in GUIDES for block in blocks(path)]
TUTORIAL = "docs/tutorial.md"  # whose blocks go on from each other


def joined(found: list[Block]) -> Block:
    """The blocks of one document as one."""
    return found[0]._replace(text="".join(block.text for block in found))


# some stand in two documents
SHELL = list(
    {
        block.text: block
        for block in BLOCKS
        if block.language == "sh" and block.document != TUTORIAL
    }.values()
)
SHELL.append(
    joined([b for b in BLOCKS if b.language == "sh" and b.document == TUTORIAL])
)
START = next(block for block in SHELL if block.document == "README.md")
PYTHON = [block for block in BLOCKS if block.language == "python"]

OPTIONAL = r"^(?:import|from) (optuna|torch|onnxruntime|fastapi)\b"

STUBS = {  # programs that a document names and a test must not run
    **dict.fromkeys(("pip", "pytest", "ruff"), "exit 0"),
    "bash": '[ "$1" = tests/check_core.sh ] || exec /bin/bash "$@"',
    "python3": '[ "$2" = venv ] || exec "$PYTHON" "$@"',
    "python": 'exec "$PYTHON" "$@"',
    "nn": 'exec "$PYTHON" -m nn "$@"',
    "mpiexec": 'shift 2; exec "$@"',
    "sbatch": """
while [ "${1#--}" != "$1" ]; do shift; done  # flags of its own
script=$1; shift
/bin/bash -n "$script" || exit 1
case $script in
    *array*) [ -e "$1" ] ;;
    *) nn --train --model m.bin "$@" ;;
esac""",
}
# as `nn`, but for a choice of networks that tries the cheapest ones alone, and for
# intervals by few resamples
TRY_FEW = """exec "$PYTHON" -c 'import sys
from nn.core import bootstrap
from nn.nn_aux import EFFORTS
EFFORTS["standard"] = EFFORTS["quick"] = 1e6
bootstrap.RESAMPLES = 100
from nn.cli import main
sys.exit(main())' "$@" """
READ_FLAGS = """exec "$PYTHON" -c 'import sys
from nn.terminal.parser import parse
assert parse(sys.argv[1:])' "$@" """


def write_idx(path: Path, array: np.ndarray) -> None:
    """Bytes in the format of MNIST."""
    header = bytes([0, 0, 8, array.ndim]) + b"".join(
        size.to_bytes(4, "big") for size in array.shape
    )
    path.write_bytes(header + array.tobytes())


@pytest.fixture
def stand_ins(folder, datasets) -> Path:
    """The current folder, with small files under the names that the documents use."""
    (folder / "slurm").symlink_to(REPOSITORY / "slurm")
    (folder / "datasets").mkdir()
    for linked in {*datasets.iterdir()} - {datasets / "CC.csv"}:
        (folder / "datasets" / linked.name).symlink_to(linked)
    (folder / ".venv" / "bin").mkdir(parents=True)
    (folder / ".venv" / "bin" / "activate").touch()
    (folder / "predict.c").write_text(
        next(block.text for block in BLOCKS if "int main" in block.text)
    )
    for file in ("customers.csv", "new_customers.csv"):
        (folder / file).symlink_to(datasets / file)
    head, *rows = (datasets / "CC.csv").read_text().splitlines(keepends=True)
    for file in ("CC.csv", "datasets/CC.csv", "new.csv"):
        (folder / file).write_text("".join([head, *rows[::20]]))
    rng = np.random.default_rng(0)
    kinds = enumerate(["setosa", "versicolor", "virginica"] * 30)
    lines = []
    for k, kind in kinds:
        lines.append(
            ",".join([*map(str, (rng.normal(size=4) + 3 * (k % 3)).round(2)), kind])
        )
    (folder / "iris.csv").write_text("\n".join(["a,b,c,d,species", *lines]) + "\n")
    for part in ("train", "t10k"):
        array = rng.integers(0, 256, (100, 28, 28), np.uint8)
        write_idx(folder / f"{part}-images-idx3-ubyte.gz", array)
        array = (np.arange(100) % 10).astype(np.uint8)
        write_idx(folder / f"{part}-labels-idx1-ubyte.gz", array)
    return folder


def run_shell(block: Block, folder: Path) -> str:
    """Run a block as a reader would type it. Returns what it printed."""
    programs = folder / "programs"
    programs.mkdir()
    stubs = STUBS
    if block.flags_only:
        stubs = {**STUBS, "nn": READ_FLAGS}
    elif block is not START:
        stubs = {**STUBS, "nn": TRY_FEW}
    for program, body in stubs.items():
        (programs / program).write_text(f"#!/bin/bash\n{body}\n")
        (programs / program).chmod(0o755)
    PATH = os.pathsep.join([str(programs), os.environ["PATH"]])
    env = environment(PATH=PATH, PYTHON=sys.executable)
    outputs = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    command = ["/bin/bash", "-euo", "pipefail", "-c", block.text]
    done = subprocess.run(command, cwd=folder, env=env, timeout=120, **outputs)
    assert done.returncode == 0, f"{block}\n{block.text}\n{done.stdout}"
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("block", SHELL, ids=str)
def test_commands_run_and_the_first_prints_what_is_shown_after_it_numbers_aside(
    block, stand_ins
):
    said = {masked(line) for line in run_shell(block, stand_ins).splitlines()}
    if block is START:
        shown = next(
            b
            for b in BLOCKS
            if b.document == block.document
            and b.language == "text"
            and b.line > block.line
        )
        missing = [
            line
            for line in shown.text.splitlines()
            if line != "..." and masked(line) not in said
        ]
        assert not missing, f"{shown} shows what is not printed: {missing}"


def masked(line: str) -> str:
    """A line without its numbers, blanks, and what depends on the machine."""
    line = re.sub(r"omp \(\w+\)", "omp", line).replace("threads", "thread")
    return re.sub(r"[\d.,]*\d", "#", "".join(line.split()))


@pytest.mark.slow
@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_python_runs(block, stand_ins):
    # what no extra of the package installs
    for optional in re.findall(OPTIONAL, block.text, re.M):
        pytest.importorskip(optional, reason=f"{optional} is not installed")
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(block.text, str(block), "exec"), {})


def test_the_documents_have_commands():
    assert len(SHELL) >= 15
    assert len(PYTHON) >= 2
    assert sum(block.flags_only for block in SHELL) <= 4


# ---------------------------------------------------------- what is written in the text


def prose(path: Path) -> str:
    """A document without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.M | re.S)


def anchors(path: Path) -> set[str]:
    """The names that links to headings of a document have on GitHub."""
    headings = re.findall(r"^#+ (.+)$", prose(path), re.M)
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in headings
    }


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(path)):
        if target.startswith(("http://", "https://")):
            continue
        file, _, anchor = target.partition("#")
        if file:
            other = (path.parent / file).resolve()
        else:
            other = path
        assert other.exists(), f"{target}: no such file"
        assert not anchor or anchor in anchors(other), f"{target}: no such heading"


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_files_that_are_named_exist(path):
    for code in re.findall(r"`([^`\n]+)`", prose(path)):
        if re.fullmatch(r"(csrc|nn|docs|datasets|slurm|tests|\.ci)/[\w./]*", code):
            assert (REPOSITORY / code).exists(), code


@pytest.mark.parametrize("path", GUIDES, ids=name)
def test_flags_that_are_named_exist(path):
    names = {
        *MODES,
        *BY_NAME,
        *GONE,
        "help",
        "all",
        "version",
        "completion",
    } | OTHERS_FLAGS
    for code in re.findall(r"`([^`]+)`", prose(path)):
        if not re.match(r"nn |--", code):
            continue
        for flag in re.findall(r"--([a-z][\w-]*)", code):
            assert flag in names or flag.replace("-", "_") in names, f"{code}: --{flag}"


SENTENCES = {  # a pattern -> a sentence that it finds
    r"(?:^(?:- )?|[.:;] )(?:Which|How|What)\b[^.:;?|]*\btells?\b": "How good a network is, tells cross-validation.",
    r"\b(?:is|are|was|were) none\b": "A name that is none is refused.",
    r"\b(?:tells?|told)(?: \w+){0,3} (?:metrics?|figures?|scores?|loss(?:es)?|errors?)\b": "A test tells the metrics.",
}
WORDS = {
    r"\bgaps?\b": "a missing value",
    r"\bfigures?\b": "a metric",
    r"\bwrong use\b": "a usage error",
}
OWN_WORDS = {"CHANGELOG.md", "docs/developing.md"}  # of former versions; of the code


def sentences(path: Path) -> str:
    """The prose of a document without code, each paragraph on a line."""
    return re.sub(r"\n *(?=[^\s|#-])", " ", re.sub(r"`[^`]*`", "``", prose(path)))


@pytest.mark.parametrize(
    "path", [path for path in DOCUMENTS if name(path) != "CHANGELOG.md"], ids=name
)
def test_sentences_begin_with_their_subject(path):
    text = sentences(path)
    for pattern, example in SENTENCES.items():
        assert re.search(pattern, example), pattern
        matches = re.finditer(pattern, text, re.M)
        assert [match[0] for match in matches] == []


@pytest.mark.parametrize(
    "path", [path for path in GUIDES if name(path) not in OWN_WORDS], ids=name
)
def test_guides_have_the_words_of_the_field(path):
    text = sentences(path)
    for old, word in WORDS.items():
        matches = re.finditer(old, text)
        assert [match[0] for match in matches] == [], f"expected {word}"


@pytest.mark.parametrize("path", GUIDES, ids=name)
def test_no_line_is_wider_than_120_characters_but_tables_and_commands(path):
    lines = prose(path).splitlines()
    assert not [line for line in lines if len(line) > 120 and not is_row(line)]


def test_the_readme_has_at_most_160_lines():
    lines = (REPOSITORY / "README.md").read_text().splitlines()
    assert len(lines) <= 160


DEVELOPING = REPOSITORY / "docs" / "developing.md"
TO_ADD = "## To add ..."
SIDES = ["to add", "Python", "plain C", "fast C", "CUDA", "tests", "documents"]


def cells(line: str) -> list[str]:
    """The cells of a row of a table."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def to_add() -> str:
    return DEVELOPING.read_text().split(TO_ADD)[1].split("\n## ")[0]


def test_the_table_to_add_says_for_each_side_what_there_is_to_do():
    head, _, *table = map(cells, filter(is_row, to_add().splitlines()))
    assert head == SIDES
    what = " ".join(
        [*(row[0] for row in table), *re.findall(r"^### (.+)$", to_add(), re.M)]
    )
    kinds = [
        "activation",
        "loss",
        "optimiser",
        "layer",
        "backend",
        "flag",
        "mode",
        "metric",
        "format",
        "column",
    ]
    assert [kind for kind in kinds if kind not in what] == []
    assert [row[0] for row in table if len(row) != len(SIDES) or not all(row)] == []
    assert [row[0] for row in table if "tests/" not in row[SIDES.index("tests")]] == []


def test_a_checklist_names_files_and_what_is_in_them():
    """`path/of/a/file`: `words`, in the first of the files if there are several."""
    checked = 0
    for item in re.findall(r"^- \[ \] (`.+(?:\n  .+)*)", to_add(), re.M):
        files, _, rest = item.partition(": ")
        text = "".join((REPOSITORY / file).read_text() for file in names_in(files))
        cell = rest.split(". ")[0]
        words = [word for word in names_in(cell) if re.fullmatch(r"\w+", word)]
        assert [word for word in words if not re.search(rf"\b{word}\b", text)] == [], (
            item
        )
        checked += len(words)
    assert checked >= 120


@pytest.mark.parametrize(
    "path", [path for path in DOCUMENTS if path != DEVELOPING], ids=name
)
def test_other_documents_have_no_list_of_what_to_add_but_a_link_to_it(path):
    assert not [
        line
        for line in path.read_text().split("## To add")[1:]
        if "developing.md#to-add-" not in line
    ]


def test_what_the_table_to_add_names_is_in_the_file_that_it_names():
    """In a cell, words in code come before the file that they are in: `words` in
    `path/of/a/file`."""
    checked = 0
    for cell in re.findall(
        r"[^|\n]+", "\n".join(filter(is_row, to_add().splitlines()))
    ):
        words = []
        for code in names_in(cell):
            path = REPOSITORY / code
            if re.fullmatch(r"\w[\w-]*", code):
                words.append(code)
            elif path.is_file():
                text = path.read_text()
                missing = [
                    word for word in words if not re.search(rf"\b{word}\b", text)
                ]
                assert not missing, f"{code} has no {missing}"
                checked += len(words)
                words = []
            else:
                assert path.is_dir() or code.startswith("-"), code
                words = []
    assert checked >= 20


# ----------------------------------------------------- lists that are the program's own

CONTRACT = REPOSITORY / "docs" / "command-line.md"
NUMBERS = REPOSITORY / "docs" / "numbers.md"


def is_row(line: str) -> bool:
    return line.startswith("|")


def table_after(heading: str) -> list[list[str]]:
    """The cells of the first table below a heading of the contract, without its
    header."""
    lines = CONTRACT.read_text().split(f"\n## {heading}\n")[1].splitlines()
    table = list(takewhile(is_row, dropwhile(lambda line: not is_row(line), lines)))
    return [cells(line) for line in table[2:]]


def names_in(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_messages_install_what_pyproject_toml_names():
    tomllib = pytest.importorskip("tomllib")
    extras = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    of_tests = {name: extras[name] for name in ("test", "arena")}
    assert packages.EXTRAS | of_tests == extras


def test_nothing_says_to_install_this_package_by_a_name_that_may_be_anothers():
    paths = (REPOSITORY / "nn").rglob("*.py")
    files = [*DOCUMENTS, *paths]
    assert not [
        name(path)
        for path in files
        if re.search("install.*(nn-trainer|nnbit)", path.read_text())
    ]


def test_every_flag_is_in_the_contract():
    cells = [
        cell
        for heading in ("Modes", "Flags")
        for row in table_after(heading)
        for cell in row[:2]
    ]
    documented = {flag for cell in cells for flag in re.findall(r"`--(\w+)", cell)}
    assert {*MODES, *BY_NAME} - documented == set()


@pytest.mark.parametrize(
    "flag",
    [setting for setting in FLAGS if setting.default or setting.metavar == "NAME"],
    ids=attrgetter("name"),
)
def test_the_contract_has_the_names_that_a_setting_may_have_and_its_default(flag):
    row = row_of(flag)
    if isinstance(flag.default, float):
        default = f"{flag.default:g}"
    else:
        default = flag.default
    if flag.metavar == "NAME":
        names = flag.value.expected.replace(" or ", ", ").split(", ")
    else:
        names = []
    assert [
        name for name in names if not re.search(rf"`([^`]*[, ])?{name}\b", row)
    ] == []
    assert not default or re.search(rf"\([^)]*\b{default}\b", row)


def row_of(flag) -> str:
    """The row of the contract's table that has a flag in its first cell, or else in
    another."""
    rows = sorted(table_after("Flags"), key=lambda row: f"--{flag.name}" not in row[0])
    return next(
        " ".join(row) for row in rows if re.search(rf"--{flag.name}\b", " ".join(row))
    )


def test_the_exit_codes_are_those_of_the_errors():
    documented = {int(row[0]) for row in table_after("Exit codes")}
    errors = {
        error.exit_code
        for error in (NnError, UsageError, DataError, InputNotFound, OutputError)
    }
    assert documented == errors | {
        0,
        DRIFTED,
        CANNOT_TELL,
        WORSE,
        RUN_AGAIN,
        129,
        130,
        143,
    }


DEFINED = "ACTIVATIONS", "LOSSES", "OPTIMIZERS", "INITIALIZERS", "SCHEDULES", "SCALINGS"
LISTED = "MONITORS", "THRESHOLD_RULES", "CALIBRATIONS", "EFFORTS"


@pytest.mark.parametrize("table", [*DEFINED, *LISTED])
def test_every_name_is_in_the_contract_and_computations_are_among_the_numbers(table):
    if table in DEFINED:
        documents = (CONTRACT, NUMBERS)
        end = "`"
    else:
        documents = (CONTRACT,)
        end = "[`=]"
    names = getattr(nn_aux, table)
    for document in documents:
        text = document.read_text()
        missing = [name for name in names if not re.search(f"`{name}{end}", text)]
        assert missing == [], document


@pytest.mark.parametrize("document", [CONTRACT, NUMBERS], ids=name)
def test_activations_with_initial_weights_by_he_are_named(document):
    sentence = re.search(
        r"(?:he before|is `he` for layers with)([^;.]*)(?:else|lecun)",
        document.read_text(),
    )[1]
    named = [n for n in nn_aux.ACTIVATIONS if re.search(rf"\b{n}\b", sentence)]
    assert named == [
        n for n, activation in nn_aux.ACTIVATIONS.items() if activation.init == "he"
    ]


@pytest.mark.parametrize("document", [CONTRACT, REPOSITORY / "README.md"], ids=name)
def test_every_layer_kind_is_listed(document):
    text = document.read_text().replace("\\|", "|")
    assert [
        item
        for item in LAYER_KINDS.values()
        if item and f"`{item.split()[0]}`" not in text
    ] == []


def json_keys(mode: str) -> list[str]:
    return names_in(dict(table_after("JSON"))[mode])


@pytest.mark.parametrize(
    "task, kind",
    [
        ("binary", "two_classes"),
        ("multiclass", "three_classes"),
        ("regression", "numbers"),
    ],
)
def test_the_json_keys_are_those_of_the_contract(task, kind, folder):
    getattr(command_line, f"write_{kind}")(folder / "data.csv")
    given = ["--dataset", "data.csv", "--model", "m.bin", "--epochs", 2, "--json"]
    several = succeed("--train", *given).json
    train = succeed(*ONE, *given).json
    assert {*json_keys("train"), *json_keys("train, effort")} == several.keys()
    assert list(train) == json_keys("train")
    figures = list(succeed("--test", "--model", "m.bin", "--json").json)
    assert figures == json_keys(f"test, {task}")
    fields = {field for row in table_after("Model file") for field in names_in(row[0])}
    info = succeed("--info", "--model", "m.bin", "--json").json
    expected = {*json_keys("info"), *fields} - {"sha256"}
    assert info.keys() == expected
    assert model_file.load("m.bin")[1].keys() == fields


def test_the_json_keys_of_benchmarks_and_sweeps_are_those_of_the_contract(
    folder, datasets, brief
):
    bench = succeed("bench", "cc-b10", "--backend", "omp", "--json", "-q").json
    assert list(bench) == json_keys("bench")
    plan = datasets / "plans" / "smoke.json"
    result = succeed("--sweep", f"{plan}:0", "-o", "r.csv", "--json")
    assert list(result.json) == json_keys("sweep")
