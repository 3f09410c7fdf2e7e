"""Builds the C core; everything else about the package stands in pyproject.toml."""

import os
from concurrent.futures import ThreadPoolExecutor

from setuptools import setup
from setuptools.command.build_ext import build_ext


class BuildOnAllCores(build_ext):
    """Compiles the sources of an extension at the same time: the core is one long file for each instruction set."""

    def build_extensions(self):
        compile_in_turn = self.compiler.compile

        def compile_together(sources, **options):
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                compiled = pool.map(lambda source: compile_in_turn([source], **options), sources)
                return [name for names in compiled for name in names]

        self.compiler.compile = compile_together
        super().build_extensions()


setup(
    cffi_modules=["csrc/build.py:seq", "csrc/build.py:omp"],
    cmdclass={"build_ext": BuildOnAllCores},
    options={"bdist_wheel": {"py_limited_api": "cp310"}},  # one wheel serves every Python from 3.10 on
)
