"""Records: arrays of rows in memory, or, where it has no room for them, in a file that
is mapped; the budget of --memory, of which networks take what they need, by sizes
alone.

A mapped file has no name, so that nothing is left of it whatever ends the program, and
is never on a file system in memory. Its place on the disk is taken before it is mapped:
a full disk is an OutputError, and no signal later. Records of a training with a
checkpoint have a file beside it, from which a training that goes on maps them again.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import math
import mmap
import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from ..core import extension
from ..core.records import check_rows
from ..utils import (
    NnError,
    OutputError,
    UsageError,
    alone_in,
    atomic_file,
    available_memory,
    cut_line,
    cut_name,
    give_back_memory,
    locked,
    memory_left,
    os_reason,
    private_bytes,
    resident_bytes,
    temporary_folder,
)

PROGRAM_BYTES = 48 << 20  # of a limit, for the program without rows
LEAST_BYTES = 1 << 20  # of an array for which the limit is asked
LEAST_BYTES_MAPPED = 1 << 16  # of an array that is not from the heap
# of arrays for which the free memory is asked, where there is no limit
LEAST_BYTES_FREE = 1 << 24
HUGE_BYTES = 1 << 21  # of a block that is worth huge pages
COPIED_BYTES = 1 << 24  # at a time
# of files beside a checkpoint; another where the same encoding gives other bytes
RECORDS_FORMAT = 1
DIGEST_BYTES = 32
KEY_CHARACTERS = 16  # in a name


class _Room:
    """The memory that rows may take, and the folder of their files; of the whole
    process, its threads too."""

    # bytes, the last one counts; none: as the free memory allows
    limits: ClassVar[list[int]] = []
    # files lie beside the last one; none: in a temporary folder
    checkpoints: ClassVar[list[Path]] = []
    taken = 0  # bytes of arrays in memory
    unasked = 0  # bytes since the free memory was asked for


@contextlib.contextmanager
def within(most: int | None = None, checkpoint: str | None = None) -> Iterator[None]:
    """Let arrays of rows take at most `most` bytes of memory in the block, and their
    files lie beside a checkpoint.

    None: as it is. Threads may end their blocks in any order: each takes back what it
    brought.
    """
    brought = []
    if most is not None:
        give_back_memory()
        brought.append((_Room.limits, most))
    if checkpoint is not None:
        brought.append((_Room.checkpoints, Path(checkpoint)))
    for values, value in brought:
        values.append(value)
    try:
        yield
    finally:
        for values, value in brought:
            values.remove(value)


def share_of(memory: int | None) -> int | None:
    """Return what rows may take of --memory while no network is known; None without a
    limit."""
    if memory is None:
        return None
    return max(0, memory - PROGRAM_BYTES) // 2


def taken() -> int:
    """Return the bytes of memory that arrays of rows take now, without their files."""
    return _Room.taken


def fits(size: int) -> bool:
    """Return whether the memory has room for an array of `size` bytes more."""
    if _Room.limits:
        return size < LEAST_BYTES or _Room.taken + size <= _Room.limits[-1]
    _Room.unasked += size  # many small columns are as much as a large array
    if _Room.unasked < LEAST_BYTES_FREE:
        return True
    left = memory_left()
    if left is not None:
        # of which little is taken by now, and less of the arrays
        room = left + private_bytes() - PROGRAM_BYTES - READING_BYTES
        if 2 * size > left or 3 * (_Room.taken + size) > 2 * room:
            return False
    _Room.unasked = 0
    return True


def new_rows(shape: tuple[int, ...], dtype, order: str = "C") -> np.ndarray:
    """Return an array of zeros, in memory or in a file."""
    size = max(1, math.prod(shape) * np.dtype(dtype).itemsize)
    if size < LEAST_BYTES_MAPPED:
        return np.zeros(shape, dtype, order)
    memory = _memory(size) if fits(size) else _file(size)
    return np.frombuffer(memory, dtype, math.prod(shape)).reshape(shape, order=order)


def _memory(size: int) -> mmap.mmap:
    """Return memory of its own, which is taken as it is written to.

    It is not from the heap: the heap keeps a freed array while anything above it is in
    use. A large one has large pages, with a fault for each 2 MiB instead of 4 KiB.
    """
    is_large = size >= HUGE_BYTES and hasattr(mmap, "MADV_HUGEPAGE")
    if is_large:
        size = -(-size // HUGE_BYTES) * HUGE_BYTES
    # shared memory has small pages
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if is_large:
        memory.madvise(mmap.MADV_HUGEPAGE)
    _Room.taken += size
    weakref.finalize(memory, _give_back, size)
    return memory


def _give_back(size: int) -> None:
    _Room.taken -= size


def _file(size: int) -> mmap.mmap:
    """Return the memory of a file without a name. Raises OutputError where it cannot be
    written, MemoryError where it cannot be mapped."""
    import tempfile  # only rows on disk need it

    folder = folder_on_disk()
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
            else:
                for start in range(0, size, COPIED_BYTES):
                    file.write(bytes(min(COPIED_BYTES, size - start)))
            report_lost(folder)
            return mmap.mmap(file.fileno(), size)
    except OSError as error:
        if error.errno == errno.ENOMEM:
            raise MemoryError from error
        raise OutputError(
            f"the data: its rows do not fit the memory, and cannot be written to {folder}: {os_reason(error)}; make "
            "room there, or name another folder by TMPDIR"
        ) from error


def report_lost(path: str | os.PathLike) -> None:
    """Let the program end in one line where mapped rows cannot be read any more, as of
    a file that was cut."""
    line = cut_line(
        f"nn: {path}: rows that lie there cannot be read any more; was a file cut, or does the disk fail?"
    )
    extension("seq")[1].nn_tell_lost(f"{line}\n".encode(), OutputError.exit_code)


def folder_on_disk() -> str:
    """Return the folder for files of rows: the checkpoint's, or a temporary one, on no
    file system in memory."""
    folders = [str(path.parent) for path in _Room.checkpoints[-1:]]
    with contextlib.suppress(OutputError):
        folders.append(temporary_folder())
    folders += ["/var/tmp", os.curdir]
    folders = list(filter(None, folders))
    for folder in folders:
        with contextlib.suppress(OSError):
            if os.access(folder, os.W_OK) and not _is_in_memory(folder):
                return folder
    raise OutputError(
        f"{', '.join(dict.fromkeys(folders))}: no folder on a disk for rows that do not "
        "fit the memory; name one by TMPDIR"
    )


def _is_in_memory(folder: str) -> bool:
    """Return whether a folder's file system is in memory, as the system's list of
    mounts has it."""
    device = os.stat(folder).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    with contextlib.suppress(OSError), open("/proc/self/mountinfo") as file:
        mounts = map(str.split, file)
        return any(
            mount[2] == number and mount[mount.index("-") + 1] in ("tmpfs", "ramfs")
            for mount in mounts
        )
    return False


def some_rows(array: np.ndarray, rows) -> np.ndarray:
    """Return some rows, a slice or indices; many in a new array of rows, in the order
    that NumPy gives them."""
    if isinstance(rows, slice) or len(rows) * array[:1].nbytes < LEAST_BYTES:
        return array[rows]
    if rows.dtype == bool:
        rows = np.flatnonzero(rows)
    order = "C" if array[rows[:2]].flags.c_contiguous else "F"
    copy = new_rows((len(rows), *array.shape[1:]), array.dtype, order)
    return _filled(copy, lambda block: array[rows[block]])


def in_rows(array: np.ndarray, dtype=None) -> np.ndarray:
    """Return an array of a type whose rows lie one after the other: itself, or a
    copy."""
    dtype = np.dtype(dtype or array.dtype)
    if array.flags.c_contiguous and array.dtype == dtype:
        return array
    return _filled(new_rows(array.shape, dtype), array.__getitem__)


def in_file(array):
    """Return a copy of rows, an array or TableRows, in a file, of a small array one in
    memory."""
    if not isinstance(array, np.ndarray):
        return array.in_file()
    order = "C"
    if array.flags.f_contiguous and not array.flags.c_contiguous:
        order = "F"
    with within(0):
        return _filled(new_rows(array.shape, array.dtype, order), array.__getitem__)


def _filled(out: np.ndarray, rows) -> np.ndarray:
    step = max(1, COPIED_BYTES // max(1, out[:1].nbytes))
    for start in range(0, len(out), step):
        block = slice(start, min(start + step, len(out)))
        out[block] = rows(block)
    return out


# ---------------------------------------------------------- records beside a checkpoint

# A file's name has the digest of what decides its bytes; it is the records and the
# SHA-256 of name and records. Nothing else in it is trusted: one that is cut, changed,
# of others or with codes out of range is written anew. It is mapped to be read alone;
# one that changes while a training reads it ends the training before that writes
# anything.


# by its checkpoint: (file, facts of it, memory, digest of the key) of each
_in_use = {}


def filled_records(
    rows: int,
    dtype: np.dtype,
    step: int,
    fill: Callable[[np.ndarray, slice], None],
    key: str | None,
    columns,
) -> np.ndarray:
    """Return records, `step` of which `fill` sets at a time: in memory or in a file,
    beside the checkpoint if there is one and a key, which decides their bytes. columns:
    the InputColumns of the records. Raises OutputError."""
    blocks = [slice(start, min(start + step, rows)) for start in range(0, rows, step)]
    size = rows * dtype.itemsize
    is_kept = key is not None and _Room.checkpoints and not fits(size)
    if is_kept:
        checkpoint = _Room.checkpoints[-1]
        is_kept = os.path.samefile(folder_on_disk(), checkpoint.parent)
    if not is_kept:
        out = new_rows((rows,), dtype)
        for block in blocks:
            fill(out[block], block)
        return out

    key = f"{RECORDS_FORMAT} {key}".encode(errors="surrogatepass")
    digest = hashlib.sha256(key).digest()
    path = checkpoint.with_name(
        f"{cut_name(checkpoint.name)}.rows-{digest.hex()[:KEY_CHARACTERS]}"
    )
    # another rank of this host maps what the first has written
    with alone_in(path.parent):
        records = _read(path, digest, rows, dtype, columns)
        if records is None:
            if path.is_symlink():
                path.unlink()
            whole = hashlib.sha256(digest)
            with atomic_file(path, mode=0o600) as file:
                for block in blocks:
                    part = np.zeros(block.stop - block.start, dtype)
                    fill(part, block)
                    file.write(part.view(np.uint8))
                    whole.update(part.view(np.uint8))
                file.write(whole.digest())
            with contextlib.suppress(OSError):  # no modes, see atomic_file
                os.chmod(path, 0o400)
            records = _read(path, digest, rows, dtype, columns)
    if records is None:
        raise OutputError(
            f"{path}: cannot write: the file has changed since; let nothing else write there"
        )
    return records


@contextlib.contextmanager
def beside_checkpoint(path: str | None) -> Iterator[None]:
    """Let files of rows lie beside a checkpoint in the block; its records are removed
    when a training has come to its end."""
    is_first = path is not None and Path(path) not in _Room.checkpoints[-1:]
    try:
        with within(checkpoint=path):
            yield
            check_kept(path)
    finally:
        if is_first:
            _in_use.pop(Path(path), None)
    if not is_first:
        return
    folder = Path(path).parent
    name = glob.escape(cut_name(Path(path).name))
    for kept in folder.glob(f"{name}.rows-{'[0-9a-f]' * KEY_CHARACTERS}"):
        with contextlib.suppress(OSError):
            kept.unlink()
    # a killed run's, or one that another rank writes now
    for part in folder.glob(f".{name}.rows-*.tmp"):
        with contextlib.suppress(OSError), open(part, "r+b") as file:
            if locked(file.fileno()):
                part.unlink()


def check_kept(checkpoint: str | None) -> None:
    """Raise OutputError if a file beside a checkpoint was changed since it was mapped:
    what was trained is wrong."""
    for path, facts, memory, digest in _in_use.get(Path(checkpoint or ""), ()):
        with contextlib.suppress(OSError):
            now = os.stat(path)
            is_same = now.st_mtime_ns == facts.st_mtime_ns
            if is_same or not os.path.samestat(now, facts):
                continue
            if now.st_size != facts.st_size or not _is_whole(memory, digest):
                raise OutputError(
                    f"{path}: was changed while a training read it; let nothing write "
                    "there, and train again"
                )


def _read(
    path: Path, digest: bytes, rows: int, dtype: np.dtype, columns
) -> np.ndarray | None:
    """Return the mapped records of a file, None unless it is our own, whole, and has
    codes that the network has."""
    flags = os.O_NOFOLLOW | os.O_NONBLOCK  # a pipe keeps nobody waiting
    try:
        with open(
            path, "rb", opener=lambda path, how: os.open(path, how | flags)
        ) as file:
            facts = os.fstat(file.fileno())
            is_ours = facts.st_uid == os.geteuid() and not facts.st_mode & 0o022
            if facts.st_size != rows * dtype.itemsize + DIGEST_BYTES or not is_ours:
                return None
            report_lost(path)
            memory = mmap.mmap(file.fileno(), facts.st_size, access=mmap.ACCESS_READ)
        if not _is_whole(memory, digest):
            return None
        records = np.frombuffer(memory, dtype, rows)
        check_rows(records, columns)
    except (OSError, ValueError):
        return None
    _in_use.setdefault(_Room.checkpoints[-1], []).append((path, facts, memory, digest))
    return records


def _is_whole(memory: mmap.mmap, digest: bytes) -> bool:
    whole = hashlib.sha256(digest)
    size = len(memory) - DIGEST_BYTES
    for start in range(0, size, COPIED_BYTES):
        whole.update(memoryview(memory)[start : min(start + COPIED_BYTES, size)])
    return whole.digest() == memory[size:]


# ---------------------------------------------------------------- the budget

PREDICTED_ROWS = 64  # that a forward pass takes at a time

# The program's memory beside a backend's base_bytes and the rows, measured as peaks.
# The figures are the same on every machine.
READING_BYTES = 24 << 20
# of a row, wherever it is: its target, and its place in the split and in the order
ROW_BYTES = 32
# of the parameters: themselves, gradients, moments, those of the best epoch, what is
# written
COPIES = 12


def make_room(net, ds, networks: Sequence[int]) -> int | None:
    """Return the bytes that the memory of a Dataset leaves rows beside networks of
    these bytes each; None: no limit.

    Inputs that are in memory go to a file where they would take more. Raises UsageError
    if the networks do not fit.
    """
    memory = ds.memory
    if memory is None:
        return None
    count = len(networks)
    least = net.traits.base_bytes + READING_BYTES + ROW_BYTES * ds.rows + sum(networks)
    check_memory(
        memory, least, "this network" if count == 1 else f"these {count} networks"
    )
    if taken() > memory - least:
        ds.x = in_file(ds.x)
    return memory - least


def check_left(needed: int, what: str, cure: str) -> None:
    """Raise NnError if the machine, or a control group, has no memory left for what
    needs it: the system would kill."""
    if needed < LEAST_BYTES_FREE:
        return
    left = memory_left()
    if left is None:
        return
    left += (
        resident_bytes() - private_bytes()
    )  # pages of files, which the system gives up
    if needed > left:
        raise NnError(
            f"{what} needs {size_text(needed)}, but only {size_text(left)} are left; "
            f"{cure}, or raise the limit"
        )


def check_room_for_rows(rows: int) -> None:
    """Raise NnError if the memory has no room for what a training keeps of each row."""
    check_left(
        ROW_BYTES * rows,
        f"out of memory: a training of {rows} rows",
        "use fewer rows",
    )


def check_free(sizes: Sequence[int], flag: str) -> None:
    """Raise NnError, which says how many fit, if networks of these bytes do not fit the
    free memory. flag: what asks for these networks."""
    needed = np.cumsum(sizes)
    free = available_memory()
    if free is None or needed[-1] <= free:
        return
    fitting = int(np.searchsorted(needed, free, side="right"))
    cure = "use smaller layers"
    if fitting > 1:
        cure = f"{flag} {fitting} fits"
    count = len(sizes)
    raise NnError(
        f"{flag} {count}: {count} networks need {needed[-1] / 1e9:.1f} GB, but only "
        f"{free / 1e9:.1f} GB are free; {cure}"
    )


def check_answers(net, ds) -> None:
    """Raise UsageError if ds.memory is too little for what --test keeps of the rows:
    truth and scores, and their order where they are ranked."""
    row_bytes = {
        "binary": 80,
        "multiclass": 16 * net.outputs,
        "multilabel": 80 * net.outputs,
        "regression": 64 * net.outputs,
    }[net.task]
    needed = program_bytes(net, PREDICTED_ROWS) + row_bytes * ds.rows
    check_memory(ds.memory, needed, f"the answers of {ds.rows} rows")


def check_memory(memory: int | None, least: int, what: str) -> None:
    """Raise UsageError if `what` needs more; None: there is no limit."""
    if memory is not None and least > memory:
        raise UsageError(
            f"--memory {size_text(memory)}: too little for {what}; at least {size_text(least)} is needed"
        )


def program_bytes(net, batch: int) -> int:
    """Return what a training takes beside its rows. Sizes alone decide it, not what the
    process has by now."""
    return net.traits.base_bytes + READING_BYTES + training_bytes(net, batch)


def training_bytes(net, batch: int) -> int:
    """Return what the training of a network takes beside the program: parameters,
    moments, the copies of them that are written, a batch's activations and their
    gradients."""
    return network_bytes(net.layers, net.dtype, COPIES, 4 * batch, net.inputs)


def batch_bytes(layers, dtype: str, moments: int, rows: int) -> dict[str, int]:
    """Return the bytes of what a training step computes with: parameters, their
    gradients and moments, every layer's outputs and their gradients, and the batch of
    `rows` rows, inputs and targets."""
    parameters = network_bytes(layers, dtype, 1)
    value = np.dtype(dtype).itemsize
    outputs = value * rows * sum(layer.outputs for layer in layers)
    return {
        "parameters": parameters,
        "gradients": parameters,
        "moments": moments * parameters,
        "activations": outputs,
        "activation_gradients": outputs,
        "batch": value * rows * (layers[0].inputs + layers[-1].outputs),
    }


def largest_batch(net, memory: int) -> int:
    """Return the rows of the largest batch with which --memory takes the training of a
    network, 0 if none."""
    without_rows = program_bytes(net, 0)
    of_a_row = program_bytes(net, 1) - without_rows
    return max(0, (memory - without_rows) // of_a_row)


def network_bytes(
    layers, dtype: str, copies: int, rows: int = 0, inputs: int | None = None
) -> int:
    """Return the bytes of `copies` of all parameters and, for `rows` rows, of the
    inputs and every layer's outputs.

    inputs: values of a row that go in; None: those of layer 0.
    """
    activations = layers[0].inputs if inputs is None else inputs
    activations += sum(layer.outputs for layer in layers)
    parameters = sum(layer.parameters for layer in layers)
    return np.dtype(dtype).itemsize * (copies * parameters + rows * activations)


def size_text(size: int) -> str:
    """Return bytes as --memory takes them, rounded up to whole mebibytes."""
    if size % (1 << 30):
        return f"{-(-size >> 20)}M"
    return f"{size >> 30}G"
