"""What the tests of checkpoints share: small trainings, and processes that take many
checkpoints."""

import numpy as np

from nn.ds import Dataset
from support.command_line import start, write_two_classes

CONV = ["--layers", "1x8x8,conv4k3p1,maxpool2,dropout0.25,16,dropout0.5,3"]
SMALL = ["--train", "--dataset", "two.csv", "--layers", "2,4,1", "--epochs", 3]

# saves after every epoch, however short, so that kills hit the writing too
SAVING_EACH_EPOCH = """
import sys, nn.files.checkpoint, nn.cli
nn.files.checkpoint.LEAST_SECONDS = 0
sys.exit(nn.cli.main())
"""


def images(rows):
    """Noise of 8x8 pixels with a bright stripe, whose place is the class."""
    numbers = np.random.default_rng(1)
    x = numbers.integers(0, 100, (rows, 1, 8, 8), dtype=np.uint8)
    y = np.arange(rows, dtype=np.int32) % 3
    x[np.arange(rows), 0, 2 * y + 1] += 80
    return x, y


def write_data(folder):
    """two.csv, and images.npz with images."""
    write_two_classes(folder / "two.csv", rows=2000)
    x, y = images(500)
    np.savez(folder / "images.npz", x=x, y=y)
    return folder


def start_saving_each_epoch(*arguments):
    """`nn ARGUMENTS` as a process of its own that takes a checkpoint after every
    epoch."""
    return start(*arguments, program=("-c", SAVING_EACH_EPOCH))


def wait_for(process, timeout=30):
    """(exit code, what was left of stderr)"""
    try:
        _, err = process.communicate(timeout=timeout)
        return process.returncode, err
    finally:
        process.kill()
        process.wait()


def dense_data(task="binary", rows=150, inputs=5):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(rows, inputs))
    if task == "regression":
        return Dataset(x, x[:, :2] @ np.array([[1.0, 2.0], [3.0, -1.0]]), task)
    if task == "multilabel":
        labels = (x[:, :2] > x[:, 1:3]).astype(np.float64)
        labels[::7, 0] = np.nan
        return Dataset(x, labels, task)
    return Dataset(x, (x[:, 0] > x[:, 1]).astype(np.int32), task, classes=["0", "1"])
