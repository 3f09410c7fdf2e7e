"""The packages that only some parts of the program need, and what a person is told
where one is missing."""

from __future__ import annotations

EXTRAS = {  # those of pyproject.toml
    "images": ["pillow>=9"],
    "arrow": ["pyarrow>=16"],
    "excel": ["openpyxl>=3.1"],
    "sklearn": ["scikit-learn>=1.6"],
    "onnx": ["onnx>=1.14"],
    "cuda12": [
        "cupy-cuda12x>=13",
        "nvidia-cublas-cu12",
        "nvidia-cuda-nvrtc-cu12",
        "nvidia-cudnn-cu12>=9",
        "nvidia-nccl-cu12",
    ],
    "cuda13": [
        "cupy-cuda13x>=13.6",
        "nvidia-cublas",
        "nvidia-cuda-nvrtc",
        "nvidia-cudnn-cu13>=9",
        "nvidia-nccl-cu13",
    ],
    "mpi": ["mpi4py>=4"],
    "tensorboard": ["tensorboardX>=2.6"],
}


def packages_of(extra: str, start: str = "") -> str:
    """Return the packages of an extra whose names begin so, as a shell takes them
    behind `pip install`."""
    chosen = [package for package in EXTRAS[extra] if package.startswith(start)]
    # > would send the output to a file
    return " ".join(f'"{name}"' if ">" in name else name for name in chosen)


def needs_package(extra: str, what: str) -> str:
    """Return what a person is told where the package of an extra is missing. what: who
    needs it, `pictures need`."""
    name = EXTRAS[extra][0].partition(">")[0]
    return f"{what} the package {name}: pip install {packages_of(extra)}"
