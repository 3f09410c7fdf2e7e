"""What happens where there is no GPU, or not all that it takes: one line that says what
to do."""

import ctypes.util
import importlib.util
import logging
import re
import subprocess
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import cffi
import pytest
from support.command_line import argv, run
from support.threads import in_threads

import nn
from nn import backends
from nn.backends.cuda import device
from nn.layers import InputColumn, parse
from nn.settings.values import GPUS
from nn.utils import NnError, UsageError

CUDA12 = '"cupy-cuda12x>=13" nvidia-cublas-cu12 nvidia-cuda-nvrtc-cu12 "nvidia-cudnn-cu12>=9" nvidia-nccl-cu12'
CUDA13 = '"cupy-cuda13x>=13.6" nvidia-cublas nvidia-cuda-nvrtc "nvidia-cudnn-cu13>=9" nvidia-nccl-cu13'
SMALL = "30,60,10,1"
LARGE = "50,3200,1600,1"


@pytest.fixture
def no_driver(monkeypatch):
    monkeypatch.setattr(device, "_driver_version", lambda: None)


def test_no_process_is_started_to_look_for_a_driver(monkeypatch):
    def asked(name):
        raise AssertionError(f"gcc and ld are asked for {name}")

    monkeypatch.setattr(ctypes.util, "find_library", asked)
    with pytest.raises(OSError, match="libnone.so.1"):
        device._opened(cffi.FFI(), "libnone.so.1")
    device.driver.cache_clear()
    device._driver_version.cache_clear()
    device._driver_version()  # whether there is one or not


def cupy_is(spec, monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: spec if name == "cupy" else real(name)
    )


@pytest.mark.parametrize(
    ("version", "cupy", "words"),
    [
        (None, True, "no NVIDIA driver found; install one, or use --backend omp"),
        (
            11080,
            True,
            "supports CUDA 11.8, but 12.0 or newer is needed; update the driver",
        ),
        (12040, None, f"CuPy is not installed; pip install {CUDA12}"),
        (13000, None, f"CuPy is not installed; pip install {CUDA13}"),
        (14020, None, f"CuPy is not installed; pip install {CUDA13}"),
    ],
)
def test_what_is_missing_is_told_with_its_remedy(version, cupy, words, monkeypatch):
    monkeypatch.setattr(device, "_driver_version", lambda: version)
    cupy_is(cupy, monkeypatch)
    assert words in device.missing()
    with pytest.raises(UsageError, match="--backend cuda: ") as caught:
        device.cupy.__wrapped__()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_cupy_that_cannot_be_loaded_is_told(monkeypatch):
    monkeypatch.setattr(device, "_driver_version", lambda: 13000)
    cupy_is(True, monkeypatch)
    monkeypatch.setitem(sys.modules, "cupy", None)  # what makes `import cupy` fail
    words = rf"CuPy cannot be loaded \(.+\); pip install --force-reinstall .*{re.escape(CUDA13)}$"
    with pytest.raises(UsageError, match=words):
        device.cupy.__wrapped__()


@pytest.mark.parametrize(
    "library, words",
    [
        ("cudnn", '"nvidia-cudnn-cu13>=9", or use --backend cuda'),
        ("cublas", "nvidia-cublas, or use --backend omp"),
        ("nccl", "nvidia-nccl-cu13, or use one GPU"),
    ],
)
def test_a_library_that_is_missing_is_told(library, words, monkeypatch):
    def refuse(self, path, *flags):
        raise OSError(path)

    runtime = SimpleNamespace(runtimeGetVersion=lambda: 13000)
    monkeypatch.setattr(
        device, "cupy", lambda: SimpleNamespace(cuda=SimpleNamespace(runtime=runtime))
    )
    monkeypatch.setattr(cffi.FFI, "dlopen", refuse)
    with pytest.raises(UsageError, match=f"is not installed; pip install {words}"):
        importlib.import_module(f"nn.backends.cuda.{library}").library.__wrapped__()


@pytest.mark.parametrize(
    "count, words",
    [
        (0, "no GPU found; check nvidia-smi, or use --backend omp"),
        (
            None,
            "no GPU is usable (cudaErrorNoDevice); check nvidia-smi and the driver, pip install "
            f"{CUDA13}, or use --backend omp",
        ),
    ],
)
def test_a_driver_without_a_gpu_is_told(count, words, monkeypatch):
    class Error(Exception):
        pass

    def counted():
        if count is None:
            raise Error("cudaErrorNoDevice")
        return count

    runtime = SimpleNamespace(CUDARuntimeError=Error, getDeviceCount=counted)
    cuda = SimpleNamespace(runtime=runtime)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(device, "_driver_version", lambda: 13000)
    cupy_is(True, monkeypatch)
    with pytest.raises(UsageError) as told:
        device.cupy.__wrapped__()
    assert str(told.value) == f"--backend cuda: {words}"


@pytest.mark.parametrize(
    "kind, text, words",
    [
        ("OutOfMemoryError", "no", "the GPU's memory is too small for a step; wait"),
        (
            "CUDADriverError",
            "OUT_OF_MEMORY: out of memory",
            "the GPU's memory is too small for a step; wait",
        ),
        (
            "CUDARuntimeError",
            "illegal memory access",
            "the GPU failed at a step (illegal memory access); check nvidia-smi, or use --backend omp",
        ),
        ("KeyError", "memory", "memory"),
    ],
)
def test_errors_of_the_gpu_are_told_for_what_they_are(kind, text, words, monkeypatch):
    names = ("OutOfMemoryError", "CUDADriverError", "CUDARuntimeError")
    kinds = {name: type(name, (Exception,), {}) for name in names}
    every = SimpleNamespace(**kinds)
    cuda = SimpleNamespace(memory=every, driver=every, runtime=every)
    monkeypatch.setattr(device, "cupy", lambda: SimpleNamespace(cuda=cuda))
    expected = KeyError if kind == "KeyError" else NnError
    with (
        pytest.raises(expected) as told,
        device.GpuContext("a step", "wait", nullcontext()),
    ):
        raise kinds.get(kind, KeyError)(text)
    assert told.value.args == (words,)

    class Failing(nullcontext):
        def __enter__(self):
            raise kinds.get(kind, KeyError)(text)

    cuda.Device = lambda number: nullcontext()
    cuda.Stream = lambda **_: Failing()
    turn = device.Turn(0)
    with pytest.raises(expected) as told, device.GpuContext("a step", "wait", turn):
        raise AssertionError("the GPU was entered")
    assert told.value.args == (words,)
    assert in_threads(lambda _: turn._lock.acquire(timeout=1), [0]) == [True]


@pytest.mark.parametrize("absent", ["cuda", "cudnn"])
def test_a_gpu_that_was_asked_for_and_is_not_there_is_wrong_use(
    absent, no_driver, monkeypatch
):
    monkeypatch.setattr(device, "cupy", device.cupy.__wrapped__)
    for name in ("engine", "cudnn"):
        monkeypatch.setattr(
            importlib.import_module(f"nn.backends.cuda.{name}"), "cupy", device.cupy
        )
    monkeypatch.setattr(
        importlib.import_module("nn.backends.cuda.cudnn"),
        "library",
        lambda: device.cupy(),
    )
    net = nn.Network(SMALL, "binary", backend=absent)
    with pytest.raises(UsageError, match=f"--backend {absent}: no NVIDIA driver found"):
        _ = net.engine


def test_the_command_line_says_it_in_one_line(datasets, folder):
    if device.missing() is None:
        pytest.skip("this machine has a GPU, or looks as if it had")
    result = run(
        "--train",
        "--dataset",
        datasets / "CC.csv",
        *argv("--model m.bin --backend cuda"),
    )
    assert result.code == 2
    assert result.err[:20] == "nn: --backend cuda: "
    assert result.err.count("\n") == 1


def test_auto_falls_back_to_the_processor_and_says_so(no_driver, monkeypatch, caplog):
    def none():
        raise UsageError(
            "--backend cuda: no GPU found; check nvidia-smi, or use --backend omp"
        )

    with caplog.at_level(logging.INFO, "nn"):
        assert [nn.Network(spec, "regression").backend for spec in (SMALL, LARGE)] == [
            "omp",
            "omp",
        ]
        assert (
            caplog.text.count("--backend auto chose omp: no NVIDIA driver found") == 2
        )
        monkeypatch.setattr(device, "missing", lambda: None)
        monkeypatch.setattr(device, "cupy", none)
        assert nn.Network(LARGE, "regression", backend="auto").backend == "omp"
        assert "no GPU found" in caplog.text


def test_a_batch_of_another_size_chooses_anew_until_there_is_an_engine(monkeypatch):
    def resolved(name, layers, rows, **gpus):
        return "seq" if rows < 50 else "omp"

    monkeypatch.setattr(backends, "resolve", resolved)
    net = nn.Network("2,1", "regression")
    for rows, backend in (10, "seq"), (100, "omp"), (10, "seq"):
        net.batch_number = rows
        assert net.backend == backend
    assert net.engine.describe() == "seq"
    net.batch_number = 100
    assert net.backend == "seq"


def test_auto_goes_by_the_sizes_of_network_and_batch(monkeypatch):
    monkeypatch.setattr(device, "missing", lambda: None)
    monkeypatch.setattr(device, "cupy", lambda: None)
    monkeypatch.setattr(backends.auto, "default_threads", lambda: 2)
    for spec, rows, chosen in (
        (SMALL, 10, "omp"),
        (SMALL, 1000, "cuda"),
        (LARGE, 32, "cuda"),
    ):
        assert backends.resolve("auto", parse(spec), rows) == chosen, (spec, rows)
    # pieces of numbers make the dense layer wider, and are computed themselves
    columns = [InputColumn("number", edges=(-1.0, 0.0, 0.5, 1.0))]
    pieces = parse("1,60,1", columns=columns)
    times = [
        backends.auto.processor_microseconds(layers, 100, 1)
        for layers in (pieces, parse("4,60,1"))
    ]
    expected = 6 * 100 * 4 / 5e4
    assert times[0] - times[1] == pytest.approx(expected)


@pytest.mark.parametrize(
    "rows, more, cores, us",
    [
        # 6e5 operations a row, and a core more for each 6e6
        (2, 1, 8, 6e5 / 5e4),
        (10, 1, 8, 6e5 / 5e4 / 2),
        (10, 1, 1, 6e5 / 5e4),
        # large steps are twice as fast, on all cores
        (1000, 1000, 1, 6e8 / 1e5),
        (1000, 1000, 4, 6e8 / 1e5 / 4),
    ],
)
def test_a_step_of_the_processor_takes_the_time_of_its_operations(
    rows, more, cores, us
):
    layers = parse("1000,100")
    times = [
        backends.auto.processor_microseconds(layers, count, cores)
        for count in (rows, rows + more)
    ]
    assert times[1] - times[0] == pytest.approx(us)


@pytest.mark.parametrize(
    "spec, rows, us",
    [
        # a small dense network: 0.01 us a row
        ("30,60,10,1", 100, 3.5 + 1),
        # one layer of 1e6 weights: 6e6 operations a row
        ("1000,1000", 32, 6 + 6e6 * 32 / 1.5e7),
        # the larger rate from 7.2e9 operations on
        ("1000,1000", 10_000, 6 + 300 + 6e6 * 10_000 / 4e7),
        ("1000,1000,1000", 10_000, 12 + 300 + 2 * 6e6 * 10_000 / 4e7),
    ],
)
def test_a_step_of_the_gpu_takes_the_time_of_its_operations(spec, rows, us):
    assert backends.auto.gpu_microseconds(parse(spec), rows) == pytest.approx(us)


@pytest.mark.parametrize("on_gpu, chosen", [(4.0, "cuda"), (5.0, "omp"), (6.0, "omp")])
def test_auto_takes_what_is_faster_and_the_processor_of_equal_times(
    on_gpu, chosen, monkeypatch
):
    monkeypatch.setattr(device, "missing", lambda: None)
    monkeypatch.setattr(device, "cupy", lambda: None)
    auto = backends.auto
    monkeypatch.setattr(auto, "processor_microseconds", lambda *_: 5.0)
    monkeypatch.setattr(auto, "gpu_microseconds", lambda *_: on_gpu)
    name, reason = auto.choose(parse(SMALL), 7)
    assert name == chosen
    told = f"5 us on the processor and {on_gpu:.0f} us on the GPU"
    assert reason == f"a batch of 7 rows should take {told}"


def test_auto_knows_the_batch_of_a_training(monkeypatch):
    """The flag's value decides, not the usual 32; what a model would be told by is the
    backend that was taken."""
    monkeypatch.setattr(
        backends.auto,
        "choose",
        lambda layers, rows: ("omp", "") if rows == 1000 else ("cuda", ""),
    )
    net = nn.Network(SMALL, "binary")
    net.batch_number = 1000
    assert net.backend == "omp"
    assert net.engine.name == "omp"
    net.batch_number = 32  # it has computed already
    assert net.backend == "omp"
    assert nn.Network(SMALL, "binary").backend == "cuda"


@pytest.mark.parametrize(
    "text, numbers",
    [("2", (0, 1)), ("1", (0,)), ("2,", (2,)), ("0,3", (0, 3)), ("3,1", (3, 1))],
)
def test_gpus_are_counted_or_named(text, numbers):
    assert GPUS("--gpus", text) == numbers
    net = nn.Network(SMALL, "binary", backend="cuda", gpus=text)
    assert net.gpus == numbers


@pytest.mark.parametrize(
    "text", ["0", "-1", "0,0", "a", "1,x", ",", "1.5", "1025", "9" * 12]
)
def test_gpus_that_make_no_sense_are_wrong_use(text):
    with pytest.raises(UsageError, match="--gpus .*how many GPUs"):
        nn.Network(SMALL, "binary", gpus=text)
    result = run("--train", "--dataset", "x.csv", "--model", "m.bin", f"--gpus={text}")
    assert result.code == 2
    assert "--gpus" in result.err
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    "given, words",
    [
        (
            {"backend": "omp", "gpus": "1"},
            "--gpus: --backend omp runs on the processor; use --backend cuda",
        ),
        (
            {"backend": "seq", "dtype": "tf32"},
            "^--dtype tf32: --backend seq runs on the processor",
        ),
        (
            {"backend": "seq", "dtype": "tf32", "gpus": "1"},
            "^--gpus and --dtype tf32: .* leave out --gpus and --dtype tf32$",
        ),
        (
            {"backend": "cuda", "distribute": "sideways"},
            "--distribute sideways: expected mirrored or central",
        ),
    ],
)
def test_flags_of_the_gpu_that_contradict_others_are_wrong_use(given, words):
    with pytest.raises(UsageError, match=words):
        nn.Network(SMALL, "binary", **given)


@pytest.mark.parametrize(
    "given, flags",
    [
        ({"gpus": "1"}, "--gpus"),
        ({"dtype": "tf32"}, "--dtype tf32"),
        ({"gpus": "1", "dtype": "tf32"}, "--gpus and --dtype tf32"),
    ],
)
def test_auto_is_the_gpu_where_only_a_gpu_makes_sense_else_flags_of_gpus_are_refused(
    given, flags, no_driver, monkeypatch
):
    with pytest.raises(
        UsageError,
        match=f"^{flags}: no NVIDIA driver found; install one, or leave out {flags}$",
    ):
        _ = nn.Network(SMALL, "binary", **given).backend
    monkeypatch.setattr(device, "missing", lambda instead: None)
    assert nn.Network(SMALL, "binary", **given).backend == "cuda"


def test_nothing_of_this_is_imported_without_a_gpu_backend(tmp_path):
    code = "import sys, nn; nn.Network('3,2', backend='omp').engine; assert 'cupy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)
