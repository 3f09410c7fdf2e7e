"""Settings in a model file that are of another kind are refused in one line, in every use."""

import pytest
from support.command_line import ONE, run, succeed, write_two_classes

from nn.files import model_file


@pytest.mark.parametrize("key, value", [
    ("threshold", "mse"), ("threshold", "f1=2"), ("threshold", None), ("threshold", [1]), ("threshold", "\0"),
    ("chosen", None), ("chosen", True), ("chosen", 1.5), ("chosen", [1]), ("chosen", "layers"),
    ("reference", 3), ("reference", "yes"), ("window", 0), ("window", -3),
])  # fmt: skip
def test_a_setting_of_another_kind_is_refused_in_every_use(folder, key, value):
    write_two_classes(folder / "two.csv")
    succeed(*ONE, "--dataset", "two.csv", "--model", "m.bin", "--epochs", 1, "-q")
    tensors, metadata = model_file.load("m.bin")
    model_file._FILE.save("h.bin", tensors, {**metadata, "config": {**metadata["config"], key: value}})
    uses = "info h.bin", "test h.bin", "predict h.bin two.csv", "test h.bin two.csv --report r.html",
    uses += "explain h.bin two.csv", "compare h.bin m.bin", "export h.bin -o h.onnx", "plot h.bin -o pictures"
    for use in uses:
        result = run(*use.split())
        assert result.code == 65 and result.out == "" and result.err.count("\n") == 1, use
        assert result.err.startswith("nn: h.bin: damaged model file: `config` is "), use


@pytest.mark.parametrize("rule", [0.3, "f1", "fbeta=2", "cost=1:5"])
def test_settings_of_trainings_are_read(folder, rule):
    write_two_classes(folder / "two.csv")
    flags = "--validation", "0.2", "--threshold", rule, "--epochs", 1, "-q"
    succeed(*ONE, "--dataset", "two.csv", "--model", "m.bin", *flags)
    succeed("test", "m.bin", "two.csv")


@pytest.mark.parametrize("key, value", [
    ("task", "multiclass"), ("columns", ["b", "a"]), ("columns", None), ("columns", ["a"]), ("classes", ["1", "0"]),
    ("classes", None), ("classes", ["0"]), ("targets", ["z"]), ("dtype", "float64"),
    ("threshold", "half"), ("medians", [1.0]), ("number_type", "float16"), ("encoding", {}), ("layers", "3,1:sigmoid"),
])  # fmt: skip
def test_a_member_of_another_task_or_other_columns_is_refused(folder, key, value):
    write_two_classes(folder / "two.csv")
    succeed("train", "two.csv", "--networks", 2, "--layers", "2,1", "--model", "m.bin", "--epochs", 1, "-q")
    tensors, metadata = model_file.load("m.bin")
    first, second = metadata["members"]
    model_file._FILE.save("h.bin", tensors, {**metadata, "members": [first, {**second, key: value}]})
    for use in "info h.bin", "predict h.bin two.csv", "export h.bin -o h.onnx":
        result = run(*use.split())
        assert result.code == 65 and result.out == "" and result.err.count("\n") == 1, use
        assert result.err.startswith("nn: h.bin: damaged model file: "), use
