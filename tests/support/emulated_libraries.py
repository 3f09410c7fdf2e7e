"""cuBLAS and NCCL of emulated GPUs: products by NumPy, and sums over members, which are
threads."""

from __future__ import annotations

import itertools
import threading

import cffi
import numpy as np

from nn.backends.cuda import cublas, nccl, runner
from support.emulated_gpu import start

DTYPES = {number: np.dtype(name) for name, number in nccl.TYPES.items()}


class _Library:
    """What every call returns that only sets something up: success."""

    def __init__(self, declarations: str):
        self.ffi = cffi.FFI()
        self.ffi.cdef(declarations)

    def __getattr__(self, name: str):
        if name.startswith(("cublas", "nccl")):
            return lambda *_: 0
        raise AttributeError(name)

    def array(self, pointer, dtype, *shape: int) -> np.ndarray:
        dtype = np.dtype(dtype)
        buffer = self.ffi.buffer(pointer, int(np.prod(shape)) * dtype.itemsize)
        return np.frombuffer(buffer, dtype).reshape(shape)


class _Blas(_Library):
    """Its matrices lie column by column."""

    def __init__(self):
        super().__init__(cublas.CUBLAS_DECLARATIONS)

    def cublasSgemm_v2(self, *arguments) -> int:
        return self._gemm(np.float32, *arguments)

    def cublasDgemm_v2(self, *arguments) -> int:
        return self._gemm(np.float64, *arguments)

    def _gemm(
        self, dtype, _, turn_a, turn_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc
    ):
        def factor(pointer, is_turned, height, width, lead):
            if is_turned:
                return self.array(pointer, dtype, height, lead)[:, :width]
            return self.array(pointer, dtype, width, lead)[:, :height].T

        def product():
            to = self.array(c, dtype, n, ldc)[:, :m].T
            left = factor(a, turn_a, m, k, lda)
            to[...] = alpha[0] * left @ factor(b, turn_b, k, n, ldb) + beta[0] * to

        start(product)
        return 0


class _Nccl(_Library):
    """Members meet at a barrier: what each brings, all or one add up in their order."""

    def __init__(self):
        super().__init__(nccl.NCCL_DECLARATIONS)
        self._numbers = itertools.count(1)
        self._meetings = {}
        self._members = {}

    def ncclGetUniqueId(self, unique) -> int:
        unique.internal[0] = bytes([next(self._numbers)])
        return 0

    def ncclCommInitRank(self, pointer, size: int, unique, rank: int) -> int:
        meeting = self._meetings.setdefault(
            bytes(self.ffi.buffer(unique.internal)),
            ([None] * size, threading.Barrier(size, timeout=60)),
        )
        number = next(self._numbers)
        self._members[number] = (*meeting, rank)
        pointer[0] = self.ffi.cast("void *", number)
        return 0

    def ncclAllReduce(self, from_, to, count, kind, op, comm, stream) -> int:
        assert op == nccl.SUM
        return self._exchange(from_, to, count, kind, comm, None, sum)

    def ncclReduce(self, from_, to, count, kind, op, root, comm, stream) -> int:
        assert op == nccl.SUM
        return self._exchange(from_, to, count, kind, comm, root, sum)

    def ncclBroadcast(self, from_, to, count, kind, root, comm, stream) -> int:
        return self._exchange(from_, to, count, kind, comm, None, lambda of: of[root])

    def _exchange(self, from_, to, count, kind, comm, only, joined) -> int:
        values, barrier, rank = self._members[int(self.ffi.cast("intptr_t", comm))]

        def exchange():
            values[rank] = self.array(from_, DTYPES[kind], count).copy()
            barrier.wait()
            result = joined(list(values))
            barrier.wait()
            if only in (None, rank):
                self.array(to, DTYPES[kind], count)[...] = result

        start(exchange)
        return 0


def emulate_libraries(monkeypatch) -> None:
    """Let engines of emulated GPUs find these libraries."""
    for module, kind in ((cublas, _Blas), (nccl, _Nccl)):
        library = kind()
        both = library.ffi, library
        monkeypatch.setattr(module, "library", lambda both=both: both)
    # CuPy's graphs are enough: messages have no priority
    monkeypatch.setattr(runner, "Graph", lambda stream: stream.end_capture())
