"""The documents name only commands that exist: scripts, modules, tests, plans, studies,
cases of the benchmark."""

import re

import pytest
from bench.compare import CASES
from support.command_line import REPOSITORY

from nn.settings.flags import MODES
from nn.study import studies

DOCUMENTS = [
    "README.md",
    "CONTRIBUTING.md",
    *(str(path.relative_to(REPOSITORY)) for path in REPOSITORY.glob("docs/*.md")),
    *(f"{folder}/README.md" for folder in ("csrc", "datasets", "slurm", "tests")),
    "nn/backends/cuda/README.md",
]
PATHS = (  # commands that run a file, a folder or a module
    r"\bpython3? ([\w./-]+\.py)\b",
    r"\bbash ([\w./-]+\.sh)\b",
    r"\bpytest (tests[\w./-]*)",
    r"\b(slurm/[\w-]+\.sbatch)\b",
    r"\b(datasets/plans/[\w/-]+\.json)\b",
    r"\bpython -m (tests[\w.]*\w)",
)


@pytest.fixture(autouse=True)
def _in_the_project(monkeypatch):
    """Studies have their plans there."""
    monkeypatch.chdir(REPOSITORY)


def named_paths(text: str) -> list[str]:
    """Paths of what the commands of a text would run."""
    return [found for pattern in PATHS for found in re.findall(pattern, text)]


def exists(path: str) -> bool:
    if "/" in path or path.endswith(".py"):
        return (REPOSITORY / path).exists()
    module = REPOSITORY / path.replace(".", "/")
    return (module / "__main__.py").exists() or module.with_suffix(".py").exists()


def unknown_words(text: str) -> list[str]:
    """Words of commands that name no case of the benchmark, no study and no mode."""
    unknown = []
    for words in re.findall(r"\bpython -m tests\.bench((?: +[a-z][\w-]*)+)", text):
        for word in words.split():
            if not any(case.startswith(word) for case in CASES):
                unknown.append(word)
    for name in re.findall(r"\bnn study ([\w-]+)", text):
        try:
            if not name.startswith("NAME"):
                studies.find(name)
        except studies.UsageError:
            unknown.append(name)
    named = re.findall(r"`nn ([a-z]+)\b", text)
    modes = {*MODES, *(mode.said for mode in MODES.values())}
    return unknown + [word for word in named if word not in modes]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_document_names_only_commands_that_exist(document):
    text = " ".join((REPOSITORY / document).read_text().split())
    assert [path for path in named_paths(text) if not exists(path)] == []
    assert unknown_words(text) == []


def test_what_is_not_there_is_found():
    text = "`python tests/gone.py`, `python -m tests.gone`, `bash tests/no.sh` `pytest tests/no`"
    assert [exists(path) for path in named_paths(text)] == [False] * 4
    text = "`python -m tests.bench digits growth`, `nn study moon`, `nn tarin`"
    assert unknown_words(text) == ["growth", "moon", "tarin"]
