"""What goes to other processes: the module by its name, errors with what they say."""

import copy
import pickle
import signal
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

import nn
from nn.utils import OutputError, RowError, SideFileError, Stopped

ERRORS = [
    nn.NnError("failed", 75),
    nn.UsageError("--epochs 0: expected 1 or more"),
    nn.DataError("t.csv, row 2: found x"),
    RowError(2, "column a: found nan"),
    SideFileError([OutputError("h.csv: cannot write")], {"loss": [1.0]}),
    Stopped(signal.SIGTERM),
]


def fail(number: int) -> None:
    raise ERRORS[number]


def same(ours: nn.NnError, theirs: nn.NnError) -> bool:
    return (type(ours), str(ours), ours.exit_code, vars(ours).keys()) == (
        type(theirs),
        str(theirs),
        theirs.exit_code,
        vars(theirs).keys(),
    )


def test_the_module_is_its_name_in_another_process():
    assert pickle.loads(pickle.dumps(nn)) is nn
    assert copy.deepcopy(nn) is nn
    assert len(pickle.dumps(nn)) < 100


def test_a_copy_computes_where_the_network_does_unless_it_is_asked_otherwise():
    net = nn.Network("2,1", "binary", backend="seq", threads=1, dtype="float64")
    elsewhere = net.copied("float32", backend="omp", threads=2)
    for other in (net.copied(), pickle.loads(pickle.dumps(net))):
        assert (other.backend, other.threads, other.dtype) == ("seq", 1, "float64")
    there = (elsewhere.backend, elsewhere.threads, elsewhere.dtype)
    assert there == ("omp", 2, "float32")


def test_a_function_that_uses_nn_goes_to_another_process():
    cloudpickle = pytest.importorskip(
        "cloudpickle", reason="cloudpickle is not installed"
    )
    rows = [[i, i % 5, i % 2] for i in range(40)]

    def trained(seed: int) -> tuple[str, int]:
        model = nn.fit(
            [dict(zip("aby", row, strict=True)) for row in rows],
            "y",
            epochs=1,
            layers="auto,1",
            seed=seed,
        )
        return nn.__name__, model.network.seed

    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        assert pool.submit(called, cloudpickle.dumps(trained), 4).result() == ("nn", 4)


def called(packed: bytes, *arguments):
    return pickle.loads(packed)(*arguments)


def test_joblibs_workers_use_nn():
    joblib = pytest.importorskip("joblib", reason="joblib is not installed")
    scope = {"nn": nn}
    # of no module: pickled by value
    exec("def layers_of(spec): return nn.Network(spec, 'binary').outputs", scope)
    assert joblib.Parallel(2)(
        joblib.delayed(scope["layers_of"])(spec) for spec in ("2,1", "3,1")
    ) == [1, 1]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_errors_come_back_from_other_processes(number):
    error = ERRORS[number]
    ours = pickle.loads(pickle.dumps(error))
    assert same(ours, error)
    assert same(copy.copy(error), error)
    with (
        ProcessPoolExecutor(1, get_context("spawn")) as pool,
        pytest.raises(nn.NnError) as raised,
    ):
        pool.submit(fail, number).result()
    assert same(raised.value, error)
