"""Builds the C core; everything else about the package stands in pyproject.toml."""

import os
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor

from setuptools import setup
from setuptools.command.build_ext import build_ext

BUILDING = {"build", "build_ext", "bdist_wheel", "develop", "editable_wheel", "install"}
TO_INSTALL = """nn is built by a C compiler, which {found}. Install it, and then nn again:
  Debian, Ubuntu: apt install build-essential python3-dev
  Fedora: dnf install gcc python3-devel
  Alpine: apk add build-base python3-dev
  macOS: xcode-select --install
  Windows: in WSL, as on Ubuntu"""


def check_compiler():
    """End with what to install, before anything else is printed, where the core cannot
    be compiled."""
    command = os.environ.get("CC", sysconfig.get_config_var("CC") or "cc").split()
    headers = ["-fsyntax-only", f"-I{sysconfig.get_path('include')}", "-xc", "-"]
    try:
        done = subprocess.run(
            [*command, *headers], input=b"#include <Python.h>\n", capture_output=True
        )
    except OSError:
        raise SystemExit(
            TO_INSTALL.format(found=f"is not there ({command[0]})")
        ) from None
    if done.returncode:
        raise SystemExit(
            TO_INSTALL.format(found=f"finds no Python.h ({' '.join(command)})")
        )


if BUILDING & set(sys.argv):
    check_compiler()


class BuildOnAllCores(build_ext):
    """Compiles the sources of an extension at the same time: the core is one long file
    for each instruction set."""

    def build_extensions(self):
        compile_in_turn = self.compiler.compile

        def compile_together(sources, **options):
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                compiled = pool.map(
                    lambda source: compile_in_turn([source], **options), sources
                )
                return [name for names in compiled for name in names]

        self.compiler.compile = compile_together
        super().build_extensions()


setup(
    cffi_modules=["csrc/build.py:seq", "csrc/build.py:omp"],
    cmdclass={"build_ext": BuildOnAllCores},
    # one wheel serves every Python from 3.10 on
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)
