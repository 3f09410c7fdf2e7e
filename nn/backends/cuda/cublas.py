"""Large matrix products through cuBLAS: its C library called through cffi, with a
handle and a workspace of its own (CuPy refuses its own inside a graph capture)."""

from __future__ import annotations

import functools

from .device import cuda_major, cupy, load_library, packages

CUBLAS_DECLARATIONS = """
typedef void *handle_t;
int cublasCreate_v2(handle_t *handle);
int cublasDestroy_v2(handle_t handle);
int cublasSetStream_v2(handle_t handle, void *stream);
int cublasSetWorkspace_v2(handle_t handle, void *workspace, size_t bytes);
int cublasSetMathMode(handle_t handle, int mode);
int cublasSgemm_v2(handle_t handle, int transa, int transb, int m, int n, int k, const float *alpha, const float *a,
                   int lda, const float *b, int ldb, const float *beta, float *c, int ldc);
int cublasDgemm_v2(handle_t handle, int transa, int transb, int m, int n, int k, const double *alpha, const double *a,
                   int lda, const double *b, int ldb, const double *beta, double *c, int ldc);
"""
WORKSPACE = 32 << 20  # bytes; what cuBLAS itself takes on Hopper
DEFAULT_MATH = 0
CUBLAS_TF32 = 3
NO_TRANSPOSE = 0
TRANSPOSED = 1


@functools.cache
def library():
    """Return (ffi, lib) of cuBLAS. Raise UsageError, which says what to install, where
    there is none."""
    major = cuda_major()
    package = packages(major, "nvidia-cublas")
    missing = f"--backend cuda: cuBLAS is not installed; pip install {package}, or use --backend omp"
    return load_library(
        CUBLAS_DECLARATIONS,
        "libcublas",
        "cublas",
        [f"libcublas.so.{major}", "libcublas.so"],
        missing,
    )[:2]


def _check(code: int, call: str) -> None:
    if code:
        raise RuntimeError(f"cuBLAS: {call} failed with status {code}")


class Cublas:
    """The library of engine `cuda`: takes over dense layers' large products. tf32:
    tensor cores may compute their float32 products with 10 bits of mantissa."""

    # operations; below, our own kernels are as fast and take the bias and activation
    # along
    SMALLEST = 2**30

    def __init__(self, dtype, stream, tf32: bool = False):
        self.ffi, self.lib = library()
        self.dtype = dtype
        pointer = self.ffi.new("handle_t *")
        _check(self.lib.cublasCreate_v2(pointer), "cublasCreate")
        self.handle = self.ffi.gc(pointer[0], self.lib.cublasDestroy_v2)
        self.workspace = cupy().empty(WORKSPACE, "uint8")
        self.real = {"float32": "float", "float64": "double"}[dtype.name]
        if dtype.name == "float32":
            self.gemm = self.lib.cublasSgemm_v2
        else:
            self.gemm = self.lib.cublasDgemm_v2
        self.one = self.ffi.new(f"{self.real} *", 1)
        self.zero = self.ffi.new(f"{self.real} *", 0)
        code = self.lib.cublasSetStream_v2(self.handle, self.pointer(stream.ptr))
        _check(code, "cublasSetStream")
        workspace = self.pointer(self.workspace.data.ptr)
        code = self.lib.cublasSetWorkspace_v2(self.handle, workspace, WORKSPACE)
        _check(code, "cublasSetWorkspace")
        math_mode = CUBLAS_TF32 if tf32 else DEFAULT_MATH
        code = self.lib.cublasSetMathMode(self.handle, math_mode)
        _check(code, "cublasSetMathMode")

    def pointer(self, address: int):
        return self.ffi.cast("void *", address)

    def wants_product(self, m: int, n: int, k: int) -> bool:
        """Return whether a product (m, k) (k, n) is large enough for this library."""
        return 2 * m * n * k >= self.SMALLEST

    def convolves(self, layer) -> bool:
        return False

    def pools(self, layer) -> bool:
        return False

    def product(
        self,
        c: int,
        a: int,
        b: int,
        m: int,
        n: int,
        k: int,
        a_transposed: bool,
        b_transposed: bool,
    ) -> None:
        """Compute c (m, n) = a (m, k) b (k, n) at these addresses, row by row; a
        transposed factor is stored so.

        cuBLAS counts column by column, where these are c' = b' a'."""

        def pointer_to(address: int):
            return self.ffi.cast(f"{self.real} *", address)

        code = self.gemm(
            self.handle,
            TRANSPOSED if b_transposed else NO_TRANSPOSE,
            TRANSPOSED if a_transposed else NO_TRANSPOSE,
            n,
            m,
            k,
            self.one,
            pointer_to(b),
            k if b_transposed else n,
            pointer_to(a),
            m if a_transposed else k,
            self.zero,
            pointer_to(c),
            n,
        )
        _check(code, "gemm")

    def dense(self, s, product: str):
        """Return the op of a dense layer's out (n,o) = x (n,i) w', dx (n,i) = dz (n,o)
        w or dw (o,i) = dz' x, as a function of the runner and the rows of the batch."""
        i = s.layer.inputs
        o = s.layer.outputs

        def run(r, n):
            c, a, b, *sizes = {
                "forward": (s.out, s.x, s.weight, n, o, i),
                "input": (s.dx, s.dz, s.weight, n, i, o),
                "parameters": (s.gradient, s.dz, s.x, o, i, n),
            }[product]
            self.product(
                *map(r.address, (c, a, b)),
                *sizes,
                product == "parameters",
                product == "forward",
            )

        return run
