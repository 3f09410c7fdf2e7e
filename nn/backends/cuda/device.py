"""The GPU itself: finding it and CUDA's libraries, and its errors in the program's
words.

CuPy is imported here and nowhere else, and not before a GPU is asked for.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
import threading
from collections import Counter
from pathlib import Path

from ...utils import NnError, UsageError, packages_of

# major version of CUDA -> extra of nn/utils/packages.py
CUPY = {13: "cuda13", 12: "cuda12"}
OLDEST_CUPY = 12
# that has used CUDA: this one, or one that it was forked from
_process: int | None = None


# ---------------------------------------------------------------- finding a GPU


@functools.cache
def driver():
    """Return (ffi, lib) of the NVIDIA driver. Raise OSError where there is none."""
    import cffi

    ffi = cffi.FFI()
    ffi.cdef(DRIVER)
    return ffi, _opened(
        ffi, "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    )


def _opened(ffi, name: str):
    """Return a library as ffi.dlopen does. Raise OSError where there is none, of which
    cffi would ask gcc and ld too: for a tenth of a second, and for 15 where no process
    can be started."""
    import ctypes

    ctypes.CDLL(name)
    return ffi.dlopen(name)


DRIVER = """
int cuDriverGetVersion(int *version);
int cuGraphInstantiateWithFlags(void **executable, void *graph, unsigned long long flags);
int cuGraphUpload(void *executable, void *stream);
int cuGraphLaunch(void *executable, void *stream);
int cuGraphDestroy(void *graph);
int cuGraphExecDestroy(void *executable);
"""


@functools.cache
def _driver_version() -> int | None:
    """Return the CUDA version that the driver supports, e.g. 13000; None without a
    driver."""
    try:
        ffi, library = driver()
    except OSError:
        return None
    version = ffi.new("int *")
    if library.cuDriverGetVersion(version) == 0:
        return version[0]
    return None


def missing(instead: str = "use --backend omp") -> str | None:
    """Return why no GPU is usable and what to do; None if one can be tried. Does not
    import CuPy.

    instead: what to do without one.
    """
    version = _driver_version()
    if version is None:
        return f"no NVIDIA driver found; install one, or {instead}"
    if version < OLDEST_CUPY * 1000:
        return (
            f"the NVIDIA driver supports CUDA {version // 1000}.{version % 1000 // 10}, but {OLDEST_CUPY}.0 or newer "
            f"is needed; update the driver, or {instead}"
        )
    if importlib.util.find_spec("cupy") is None:
        return f"CuPy is not installed; pip install {packages(version // 1000)}"
    return None


def packages(major: int, start: str = "") -> str:
    """Return the packages for a major version of CUDA, or the one whose name begins so,
    as pip takes them."""
    return packages_of(CUPY[min(max(major, min(CUPY)), max(CUPY))], start)


@functools.cache
def cupy():
    """Return the CuPy module once a GPU is found. Raise UsageError, which says what to
    do, where there is none."""
    if reason := missing():
        raise UsageError(f"--backend cuda: {reason}")
    try:
        import cupy as module
    except ImportError as error:
        reinstall = (
            f"pip install --force-reinstall {packages(_driver_version() // 1000)}"
        )
        raise UsageError(
            f"--backend cuda: CuPy cannot be loaded ({_line(error)}); {reinstall}"
        ) from error
    try:
        count = module.cuda.runtime.getDeviceCount()
    except module.cuda.runtime.CUDARuntimeError as error:
        raise UsageError(
            f"--backend cuda: no GPU is usable ({_line(error)}); check nvidia-smi and the driver, "
            f"pip install {packages(_driver_version() // 1000)}, or use --backend omp"
        ) from error
    if not count:
        raise UsageError(
            "--backend cuda: no GPU found; check nvidia-smi, or use --backend omp"
        )
    global _process
    _process = os.getpid()
    return module


def check_process() -> None:
    """Raise UsageError in a process that was forked from one that has used CUDA."""
    if _process not in (None, os.getpid()):
        why = (
            "CUDA does not work in a process that was forked from one that has used it"
        )
        raise UsageError(
            f"--backend cuda: {why}; start processes by spawn, or use --backend omp"
        )


def _line(error: BaseException) -> str:
    """Return the first line of an error's text that is not decoration."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip(" =\t")]
    if lines:
        return lines[0]
    return type(error).__name__


def device_count() -> int:
    check_process()
    return cupy().cuda.runtime.getDeviceCount()


def check_gpus(numbers: tuple[int, ...]) -> None:
    """Raise UsageError if this machine has no GPU of one of these numbers, or one is
    listed twice."""
    twice = [number for number, times in Counter(numbers).items() if times > 1]
    if twice:
        raise UsageError(
            f"--gpus {','.join(map(str, numbers))}: GPU {twice[0]} is listed twice; list each GPU once"
        )
    count = device_count()
    missing = [number for number in numbers if not 0 <= number < count]
    if missing:
        if count == 1:
            gpus = "one GPU, 0"
        else:
            gpus = f"{count} GPUs, 0 to {count - 1}"
        raise UsageError(
            f"--gpus: no GPU {', '.join(map(str, missing))}, this machine has {gpus}; use --gpus {count}, or check nvidia-smi and "
            "CUDA_VISIBLE_DEVICES"
        )


def address_of(number: int) -> str:
    """Return a GPU's PCI address, which no other GPU of the machine has. Raise
    UsageError for an unknown number."""
    check_gpus((number,))
    return cupy().cuda.runtime.deviceGetPCIBusId(number)


def processors() -> int:
    return cupy().cuda.Device().attributes["MultiProcessorCount"]


# bytes of shared memory that a block may have on any GPU without asking
LEAST_SHARED = 48 << 10


def shared_of_block() -> int:
    """Return the bytes of shared memory that a block may ask for."""
    attributes = cupy().cuda.Device().attributes
    return attributes.get("MaxSharedMemoryPerBlockOptin", LEAST_SHARED)


def shared_of_processor() -> int:
    """Return the bytes of shared memory that the blocks of a multiprocessor share."""
    attributes = cupy().cuda.Device().attributes
    return attributes.get("MaxSharedMemoryPerMultiprocessor", LEAST_SHARED)


def cuda_major() -> int:
    return cupy().cuda.runtime.runtimeGetVersion() // 1000


def load_library(
    declarations: str, name: str, package: str, file_names: list[str], missing: str
):
    """Return (ffi, lib, path) of a CUDA library: `name` in the folders of its package
    and toolkit, else one of the file names by the system's own search. Raise UsageError
    where there is none: `missing`, which says what to install."""
    import cffi

    ffi = cffi.FFI()
    ffi.cdef(declarations)
    for path in [*_library_paths(name, package), *file_names]:
        try:
            return ffi, _opened(ffi, path), path
        except OSError:
            continue
    raise UsageError(missing)


def _library_paths(name: str, package: str) -> list[str]:
    """Return where a CUDA library may be, the likeliest first: wheels of NVIDIA, then
    the toolkit."""
    paths = []
    for root in map(Path, sys.path):
        whole_toolkits = sorted((root / "nvidia").glob("cu[0-9]*/lib"), reverse=True)
        for folder in (root / "nvidia" / package / "lib", *whole_toolkits):
            paths += sorted(map(str, folder.glob(f"{name}.so*")), reverse=True)
    for toolkit in filter(
        None,
        (os.environ.get("CUDA_PATH"), os.environ.get("CUDA_HOME"), "/usr/local/cuda"),
    ):
        for folder in ("lib64", "lib", "targets/x86_64-linux/lib"):
            paths += sorted(
                map(str, Path(toolkit, folder).glob(f"{name}.so*")), reverse=True
            )
    return paths


# ---------------------------------------------------------------- errors


class Turn:
    """A GPU and a stream of it, for one thread at a time; one that has it may take it
    again."""

    def __init__(self, device: int):
        self._lock = threading.RLock()
        self._device = cupy().cuda.Device(device)
        with self._device:
            self.stream = cupy().cuda.Stream(non_blocking=True)

    def __enter__(self) -> None:
        self._lock.acquire()
        try:
            self._device.__enter__()
            self.stream.__enter__()
        except BaseException:
            self._lock.release()
            raise

    def __exit__(self, *error) -> None:
        self.stream.__exit__(*error)
        self._device.__exit__(*error)
        self._lock.release()


class GpuContext:
    """Gives a block its turn, and turns CuPy's errors in it into NnError: memory runs
    out while making `what`; the remedy is what to do then."""

    def __init__(self, what: str, remedy: str, turn: Turn):
        self._what = what
        self._remedy = remedy
        self._turn = turn

    def __enter__(self) -> None:
        check_process()
        try:
            self._turn.__enter__()
        except Exception as error:
            self._tell(error)
            raise

    def __exit__(self, kind, error: BaseException | None, trace) -> None:
        self._turn.__exit__(kind, error, trace)
        if error is not None:
            self._tell(error)

    def _tell(self, error: BaseException) -> None:
        """Raise NnError for an error of CuPy's; nothing happens for another."""
        module = cupy()
        of_cuda = (
            module.cuda.runtime.CUDARuntimeError,
            module.cuda.driver.CUDADriverError,
        )
        is_full = isinstance(error, module.cuda.memory.OutOfMemoryError)
        if not is_full and not isinstance(error, of_cuda):
            return
        text = str(error).lower()
        if is_full or ("memory" in text and "illegal" not in text):
            raise NnError(
                f"the GPU's memory is too small for {self._what}; {self._remedy}"
            ) from error
        raise NnError(
            f"the GPU failed at {self._what} ({_line(error)}); check nvidia-smi, or use --backend omp"
        ) from error
