"""The engine `cudnn`: three calls of cuDNN, its C library called through cffi:
convolution forward, the gradient of its input, pooling forward; all else as in
engine.py.

What stays with our own kernels: a `same` convolution that needs an odd number of zeros,
since cuDNN pads both sides alike; the backward pass of pooling, since cuDNN does not
say which of several equal maxima gets the gradient; and the gradients of convolutions'
weights, whose deterministic algorithms are slow in full float32 (H200, cuDNN 9,
microseconds, cuDNN's and ours: 118 and 15 for 32x16x16x16 -> 32 channels, 1925 and 244
for 512x1x50x50 -> 32). Algorithms are chosen by cuDNN's heuristics, never by timing,
and only those that give the same bits in every run.
"""

from __future__ import annotations

import functools

from ...layers import Layer
from ...utils import UsageError
from .cublas import Cublas
from .device import cuda_major, cupy, load_library, packages
from .engine import CudaEngine
from .program import Purpose

CUDNN_DECLARATIONS = """
typedef void *object_t;
typedef struct { int algo, status; float time; size_t memory; int determinism, math; int reserved[3]; } performance_t;
size_t cudnnGetVersion(void);
const char *cudnnGetErrorString(int status);
int cudnnCreate(object_t *handle);
int cudnnDestroy(object_t handle);
int cudnnSetStream(object_t handle, void *stream);
int cudnnCreateTensorDescriptor(object_t *d);
int cudnnDestroyTensorDescriptor(object_t d);
int cudnnSetTensor4dDescriptor(object_t d, int format, int type, int n, int c, int h, int w);
int cudnnCreateFilterDescriptor(object_t *d);
int cudnnDestroyFilterDescriptor(object_t d);
int cudnnSetFilter4dDescriptor(object_t d, int type, int format, int k, int c, int h, int w);
int cudnnCreateConvolutionDescriptor(object_t *d);
int cudnnDestroyConvolutionDescriptor(object_t d);
int cudnnSetConvolution2dDescriptor(object_t d, int pad_h, int pad_w, int stride_h, int stride_w, int dilation_h,
                                    int dilation_w, int mode, int type);
int cudnnSetConvolutionMathType(object_t d, int math);
int cudnnCreatePoolingDescriptor(object_t *d);
int cudnnDestroyPoolingDescriptor(object_t d);
int cudnnSetPooling2dDescriptor(object_t d, int mode, int nan, int h, int w, int pad_h, int pad_w, int stride_h,
                                int stride_w);
int cudnnGetConvolutionForwardAlgorithm_v7(object_t handle, object_t x, object_t w, object_t conv, object_t y,
                                           int wanted, int *found, performance_t *results);
int cudnnGetConvolutionBackwardDataAlgorithm_v7(object_t handle, object_t w, object_t dy, object_t conv, object_t dx,
                                                int wanted, int *found, performance_t *results);
int cudnnConvolutionForward(object_t handle, const void *alpha, object_t xd, const void *x, object_t wd,
                            const void *w, object_t conv, int algo, void *workspace, size_t bytes, const void *beta,
                            object_t yd, void *y);
int cudnnConvolutionBackwardData(object_t handle, const void *alpha, object_t wd, const void *w, object_t dyd,
                                 const void *dy, object_t conv, int algo, void *workspace, size_t bytes,
                                 const void *beta, object_t dxd, void *dx);
int cudnnPoolingForward(object_t handle, object_t pooling, const void *alpha, object_t xd, const void *x,
                        const void *beta, object_t yd, void *y);
"""
OLDEST_CUDNN = 90000  # the version whose calls these are
NCHW = 0
CROSS_CORRELATION = 1
DETERMINISTIC = 1
PROPAGATE_NAN = 1
# cuDNN's «default» may take tensor cores for float32
CUDNN_TF32 = 0
FULL_MATH = 3
POOLING = {"maxpool": 3, "avgpool": 1}  # 3: the deterministic maximum
LARGEST_WORKSPACE = 1 << 30
ALGORITHMS = 8  # how many to ask for


@functools.cache
def library():
    """Return (ffi, lib) of cuDNN 9. Raise UsageError, which says what to install, where
    there is none."""
    install = (
        f"pip install {packages(cuda_major(), 'nvidia-cudnn')}, or use --backend cuda"
    )
    missing = f"--backend cudnn: cuDNN is not installed; {install}"
    ffi, lib, path = load_library(
        CUDNN_DECLARATIONS,
        "libcudnn",
        "cudnn",
        ["libcudnn.so.9", "libcudnn.so"],
        missing,
    )
    if lib.cudnnGetVersion() < OLDEST_CUDNN:
        raise UsageError(f"--backend cudnn: {path} is older than version 9; {install}")
    return ffi, lib


class Cudnn(Cublas):
    """The library of engine `cudnn`: takes over convolutions, pooling, and cuBLAS's
    products."""

    def __init__(self, dtype, stream, tf32: bool = False):
        super().__init__(dtype, stream, tf32)
        self.dnn, self.nn = library()
        self.context = self._new()
        self._check(
            self.nn.cudnnSetStream(self.context, self.pointer(stream.ptr)),
            "cudnnSetStream",
        )
        self.type = {"float32": 0, "float64": 1}[dtype.name]
        if tf32:
            self.math = CUDNN_TF32
        else:
            self.math = FULL_MATH
        self.plans: dict = {}

    # ---- calls

    def _check(self, status: int, call: str) -> None:
        if status:
            text = self.dnn.string(self.nn.cudnnGetErrorString(status)).decode()
            raise RuntimeError(f"cuDNN: {call}: {text}")

    def _call(self, name: str, *arguments) -> None:
        self._check(getattr(self.nn, name)(*arguments), name)

    def _new(self, kind: str = ""):
        """Return a new handle, or descriptor of that kind."""
        pointer = self.dnn.new("object_t *")
        self._call(f"cudnnCreate{kind}", pointer)
        return self.dnn.gc(pointer[0], getattr(self.nn, f"cudnnDestroy{kind}"))

    def descriptor(self, kind: str, size: str, *settings):
        """Return a descriptor of that kind and size, e.g. Tensor and 4d."""
        descriptor = self._new(f"{kind}Descriptor")
        self._call(f"cudnnSet{kind}{size}Descriptor", descriptor, *settings)
        return descriptor

    def tensor(self, n: int, shape):
        return self.descriptor("Tensor", "4d", NCHW, self.type, n, *shape)

    # ---- layers that cuDNN computes

    def convolves(self, layer: Layer) -> bool:
        """Return whether cuDNN's padding, the same on both sides, gives this layer's
        output."""
        pads = (layer.pad_top, layer.pad_left)
        return all(
            (side + 2 * pad - layer.kernel) // layer.stride + 1 == out
            for side, pad, out in zip(
                layer.in_shape[1:], pads, layer.out_shape[1:], strict=True
            )
        )

    def pools(self, layer: Layer) -> bool:
        """Return True: cuDNN computes the forward pass of every pooling layer."""
        return True

    # ---- ops, as functions of the runner and the rows of the batch

    def convolution(self, s, product: str):
        """Return the op of out = x * w, without the bias, or of dx from dz and w."""

        def run(r, n):
            if (s.layer, n) not in self.plans:
                self.plans[s.layer, n] = _Plan(self, s.layer, n)
            p = self.plans[s.layer, n]
            if product == "forward":
                direction = "Forward"
                a = (p.x, s.x)
                b = (p.w, s.weight)
                to = (p.out, s.out)
            else:
                direction = "BackwardData"
                a = (p.w, s.weight)
                b = (p.out, s.dz)
                to = (p.x, s.dx)
            a, b, to = [
                (descriptor, self.pointer(r.address(buffer)))
                for descriptor, buffer in (a, b, to)
            ]
            algorithm, workspace = p.choice(direction, a[0], b[0], p.conv, to[0])
            settings = (
                p.conv,
                algorithm,
                self.pointer(workspace.data.ptr),
                workspace.nbytes,
            )
            self._call(
                f"cudnnConvolution{direction}",
                self.context,
                self.one,
                *a,
                *b,
                *settings,
                self.zero,
                *to,
            )

        return run

    def pool_forward(self, s):
        """Return the op out = the maximum or mean of each window of x."""

        def run(r, n):
            key = s.layer, n
            if key not in self.plans:
                kernel = s.layer.kernel
                stride = s.layer.stride
                windows = (kernel, kernel, 0, 0, stride, stride)
                pooling = self.descriptor(
                    "Pooling", "2d", POOLING[s.layer.kind], PROPAGATE_NAN, *windows
                )
                self.plans[key] = (
                    pooling,
                    self.tensor(n, s.layer.in_shape),
                    self.tensor(n, s.layer.out_shape),
                )
            pooling, x, out = self.plans[key]
            x = (x, self.pointer(r.address(s.x)))
            out = (out, self.pointer(r.address(s.out)))
            self._call(
                "cudnnPoolingForward",
                self.context,
                pooling,
                self.one,
                *x,
                self.zero,
                *out,
            )

        return run


class _Plan:
    """A convolution layer as cuDNN sees it, for batches of that many rows: descriptors,
    algorithms, workspaces."""

    def __init__(self, owner: Cudnn, layer: Layer, rows: int):
        self.owner = owner
        self.x = owner.tensor(rows, layer.in_shape)
        self.out = owner.tensor(rows, layer.out_shape)
        self.w = owner.descriptor("Filter", "4d", owner.type, NCHW, *layer.weight_shape)
        windows = layer.pad_top, layer.pad_left, layer.stride, layer.stride, 1, 1
        self.conv = owner.descriptor(
            "Convolution", "2d", *windows, CROSS_CORRELATION, owner.type
        )
        owner._call("cudnnSetConvolutionMathType", self.conv, owner.math)
        self.choices: dict = {}

    def choice(self, direction: str, *descriptors):
        """Return (algorithm, workspace) for a direction: the first of cuDNN's list that
        is deterministic and needs no large workspace."""
        if direction not in self.choices:
            owner = self.owner
            count = owner.dnn.new("int *")
            results = owner.dnn.new("performance_t[]", ALGORITHMS)
            call = f"cudnnGetConvolution{direction}Algorithm_v7"
            owner._call(call, owner.context, *descriptors, ALGORITHMS, count, results)
            fitting = [
                r
                for r in results[0 : count[0]]
                if r.status == 0
                and r.determinism == DETERMINISTIC
                and r.memory <= LARGEST_WORKSPACE
                and (r.math == FULL_MATH or owner.math == CUDNN_TF32 or owner.type == 1)
            ]
            if not fitting:
                raise UsageError(
                    "--backend cudnn: cuDNN cannot compute this convolution; use --backend cuda"
                )
            chosen = fitting[0]
            self.choices[direction] = (
                chosen.algo,
                cupy().empty(max(1, chosen.memory), "uint8"),
            )
        return self.choices[direction]


class CudnnEngine(CudaEngine):
    """A network on a GPU, convolutions and pooling by cuDNN; see the top of this
    file."""

    library = Cudnn

    def calls_library(self, purpose: Purpose) -> bool:
        """Return whether the network has convolutions or pooling, which cuDNN computes
        whatever their size."""
        return any(
            layer.kind in ("conv", "maxpool", "avgpool") for layer in self.layers
        )

    def __init__(self, backend: str, layers, loss: str, dtype: str, **options):
        library()
        super().__init__(backend, layers, loss, dtype, **options)
