"""nn in one process with packages that bring an OpenMP library of their own: python
openmp_beside.py [PACKAGE ...]

For each order of nn and the packages (torch, sklearn; those that are installed) a
process of its own imports them one after the other, and lets each compute on several
threads at once, and again after the last one. Fails where one hangs or crashes, or
where the results of an order differ from those of another.
"""

import hashlib
import itertools
import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

THREADS = 4  # also where there are fewer cores
SECONDS = 300  # a process that takes longer hangs
PACKAGES = ("torch", "sklearn")


def computed_by_torch() -> float:
    import torch

    torch.set_num_threads(THREADS)
    grid = torch.linspace(-1, 1, 512 * 512)
    square = grid.reshape(512, 512)
    return float((square @ square.T).double().sum())


def computed_by_sklearn() -> float:
    import numpy as np
    from sklearn.ensemble import HistGradientBoostingRegressor

    x = np.random.default_rng(0).normal(size=(2000, 4))
    model = HistGradientBoostingRegressor(max_iter=5).fit(x, x[:, 0] * x[:, 1])
    return float(model.predict(x).sum())


def computed_by_nn() -> str:
    import numpy as np

    import nn

    draws = np.random.default_rng(0).normal(size=(4000, 64))
    x = draws.astype(np.float32)
    ds = nn.Dataset(x, (x[:, 0] > 0).astype(int), "binary", ["0", "1"])
    net = nn.Network("64,512,512,1", "binary", threads=THREADS)
    nn.train(net, ds, epochs=1, batch_size=1000)
    content = b"".join(array.tobytes() for array in net.parameters().values())
    return hashlib.sha256(content).hexdigest()


COMPUTED_BY = {
    "torch": computed_by_torch,
    "sklearn": computed_by_sklearn,
    "nn": computed_by_nn,
}


def in_order(names: list[str]) -> dict:
    """Return what each package computes when it is imported, in this order, and
    computes again after the last one."""
    # which imports it: nn loads its core when it computes
    first = {name: COMPUTED_BY[name]() for name in names}
    again = {name: COMPUTED_BY[name]() for name in names}
    if first != again:
        raise AssertionError(f"{names}: first {first}, then {again}")
    return first


def libraries() -> list[str]:
    """Return the OpenMP libraries of this process, where the system tells them."""
    maps = Path("/proc/self/maps")
    matches = re.findall(
        r"/\S*(?:[gi]omp|libomp)\S*\.so\S*", maps.read_text() if maps.exists() else ""
    )
    return sorted(set(matches))


def main(packages: list[str]) -> None:
    for name in packages:
        if not find_spec(name):
            print(f"skipped: {name} is not installed")
    first = None
    for names in itertools.permutations(["nn", *filter(find_spec, packages)]):
        command = [sys.executable, __file__, "--order", *names]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        if done.returncode:
            sys.exit(f"{' '.join(names)}: ended with {done.returncode}\n{done.stderr}")
        result = json.loads(done.stdout)
        print(
            f"{' '.join(names)}: {' '.join(result.pop('libraries')) or 'no OpenMP library known'}"
        )
        first = first or result
        if result != first:
            sys.exit(f"{' '.join(names)}: {result}, in another order {first}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--order"]:
        print(json.dumps({**in_order(sys.argv[2:]), "libraries": libraries()}))
    else:
        main(sys.argv[1:] or [*PACKAGES])
