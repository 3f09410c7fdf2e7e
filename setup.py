"""Builds the C core; everything else about the package stands in pyproject.toml."""

from setuptools import setup

setup(
    cffi_modules=["csrc/build.py:seq", "csrc/build.py:omp"],
    options={"bdist_wheel": {"py_limited_api": "cp310"}},  # one wheel serves every Python from 3.10 on
)
