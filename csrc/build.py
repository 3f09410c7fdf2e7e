"""The cffi recipe: nn.h becomes two extensions, `_seq` (the plain kernels) and `_omp`
(the fast ones).

setup.py calls it through `cffi_modules`. Each extension holds the core for float32 and
float64; `_omp` holds both once per instruction set, and entries that jump to the best
one the processor has. The lines that differ between those copies are written to
build/csrc, so that a kernel's source stands in csrc once.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from cffi import FFI

CSRC = Path(__file__).resolve().parent
GENERATED = Path("build") / "csrc"  # relative: setuptools wants its sources so
REALS = {"f32": "float", "f64": "double"}

# name -> (compiler target, bytes of a vector), best first. prfchw: to ask for a line
# that will be written; the oldest processors with AVX2 take it for nothing
INSTRUCTION_SETS = {
    "avx512": ("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,bmi,bmi2,prfchw", 64),
    "avx2": ("avx2,fma,bmi,bmi2,prfchw", 32),
    "baseline": (None, 16),
}

# -Werror=switch: a switch over an enum names every case, so that a new activation,
# loss, ... is forgotten nowhere
WARNINGS = ["-Wall", "-Wextra", "-Werror=switch", "-Wno-psabi", "-Wno-unknown-pragmas"]
# -g0: Python's own flags may have -g, which makes the extension 6 times as large;
# NN_CFLAGS=-g brings it back
PLAIN_FLAGS = ["-std=gnu11", "-O2", "-g0", "-ffp-contract=off", *WARNINGS]
FAST_FLAGS = [
    "-std=gnu11",
    "-O3",
    "-g0",
    "-fno-math-errno",
    "-fno-trapping-math",
    *WARNINGS,
]


def declarations(text):
    """Header text as cffi wants it: without preprocessor lines, FN(name) once per
    number type."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r"^\s*#.*$", "", text, flags=re.M)
    found = []
    for statement in re.findall(r"[^;{]*(?:\{[^}]*\}[^;]*)?;", text):
        if "FN(" not in statement:
            found.append(statement)
            continue
        for suffix, real in REALS.items():
            named = re.sub(r"FN\((\w+)\)", rf"\1_{suffix}", statement)
            found.append(re.sub(r"\breal\b", real, named))
    return "\n".join(found)


def prototypes(text):
    """(return type, name, parameters) of every FN function in the header."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    found = re.findall(r"^([\w ]+?[ *]+)FN\((\w+)\)\(([^;]*?)\);", text, flags=re.M)
    return [
        (result, name, re.sub(r"\s+", " ", parameters))
        for result, name, parameters in found
    ]


def entries(text, sets):
    """C source: every FN function as a jump to the copy of the instruction set in
    use."""
    lines = ["int nn_isa_index(void);"]
    for result, name, parameters in prototypes(text):
        arguments = ", ".join(
            re.search(r"(\w+)$", p).group(1) for p in parameters.split(",")
        )
        for suffix, real in REALS.items():
            typed = re.sub(r"\breal\b", real, parameters)
            returned = re.sub(r"\breal\b", real, result)
            for isa in sets:
                lines.append(f"{returned}{name}_{suffix}_{isa}({typed});")
            lines.append(
                f"{returned}{name}_{suffix}({typed})\n{{\n    switch (nn_isa_index()) {{"
            )
            for index, isa in enumerate(sets):
                case = "default" if index == len(sets) - 1 else f"case {index}"
                call = f"{name}_{suffix}_{isa}({arguments})"
                lines.append(
                    f"    {case}: {call + '; return' if result.strip() == 'void' else 'return ' + call};"
                )
            lines.append("    }\n}")
    return "\n".join(lines) + "\n"


def core_source(real, suffix, vector_bytes, isa=None):
    """C source: the core for one number type and, for the fast build, one instruction
    set."""
    size = {"float": 4, "double": 8}[real]
    lines = []
    if isa:
        target = INSTRUCTION_SETS[isa][0]
        if target:
            attribute = f'__attribute__((target("{target}")))'
            lines += [
                "#ifdef __clang__",
                f"#pragma clang attribute push({attribute}, apply_to = function)",
                "#else",
                f'#pragma GCC target("{target}")',
                "#endif",
            ]
        lines += ["#define NN_FAST", f"#define VECTOR_BYTES {vector_bytes}"]
    lines += [
        f"#define real {real}",
        f"#define REAL_IS_{real.upper()}",
        f"#define FN(name) name##_{suffix}",
        f"#define VECTOR {vector_bytes // size if isa else 1}",
        '#include "core.c"',
    ]
    if isa and INSTRUCTION_SETS[isa][0]:
        lines += ["#ifdef __clang__", "#pragma clang attribute pop", "#endif"]
    return "\n".join(lines) + "\n"


def write_if_changed(name, text):
    """A generated source in build/csrc; an unchanged one keeps its time, so that
    nothing is compiled twice."""
    GENERATED.mkdir(parents=True, exist_ok=True)
    path = GENERATED / name
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
    return path.as_posix()


def compiles(program, *flags):
    """Return whether the compiler makes a program of that text."""
    compiler = os.environ.get("CC", "cc").split()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "try.c"
        source.write_text(program)
        command = [*compiler, *flags, str(source), "-o", str(Path(folder) / "try")]
        try:
            return subprocess.run(command, capture_output=True).returncode == 0
        except OSError:
            return False


def instruction_sets():
    """Those of INSTRUCTION_SETS that this platform knows. NN_BUILD_ISA=avx2 builds no
    other but the baseline, in less time."""
    # the compiler is asked, not this machine: it may build for another
    for_x86 = compiles(
        "#ifndef __x86_64__\n#error\n#endif\nint main(void) { return 0; }\n"
    )
    absent = set() if for_x86 else {"avx512", "avx2"}
    wanted = os.environ.get("NN_BUILD_ISA")
    if wanted:
        absent |= INSTRUCTION_SETS.keys() - {*wanted.split(), "baseline"}
    return {
        name: entry for name, entry in INSTRUCTION_SETS.items() if name not in absent
    }


def openmp_flags():
    """(compiler flags, linker flags) for OpenMP, empty where a trial program does not
    link."""
    works = compiles(
        "#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n",
        "-fopenmp",
    )
    if not works:
        print(
            "nn: this compiler has no OpenMP; backend omp will use one thread",
            file=sys.stderr,
        )
    return (["-fopenmp"], ["-fopenmp"]) if works else ([], [])


def fma_flags():
    """The flag by which GCC joins each product with its sum. From 13 on it joins none
    of one long sum, but those of several side by side: a row's bits would depend on how
    many rows it is computed with."""
    flag = "--param=avoid-fma-max-bits=0"
    return [flag] if compiles("int main(void) { return 0; }\n", "-Werror", flag) else []


def relative(*names):
    return [os.path.relpath(CSRC / name).replace(os.sep, "/") for name in names]


def extension(name, source, sources, compile_flags, link_flags, headers=("nn.h",)):
    ffi = FFI()
    ffi.cdef("\n".join(declarations((CSRC / header).read_text()) for header in headers))
    ffi.set_source(
        f"nn.core.{name}",
        source,
        sources=sources,
        include_dirs=[str(CSRC)],
        depends=[str(path) for path in CSRC.rglob("*.[ch]")],
        extra_compile_args=[*compile_flags, *os.environ.get("NN_CFLAGS", "").split()],
        extra_link_args=[*link_flags, *os.environ.get("NN_CFLAGS", "").split()],
        libraries=["m"],
    )
    return ffi


def public_header():
    """nn.h for both number types, as the wrapper that cffi writes includes it."""
    return "#include <stdint.h>\n" + declarations((CSRC / "nn.h").read_text()) + "\n"


def make_seq():
    """The plain kernels: one thread, sums in index order, no fused multiply-add."""
    cores = [
        write_if_changed(f"seq_{s}.c", core_source(real, s, 0))
        for s, real in REALS.items()
    ]
    return extension(
        "_seq",
        public_header() + '#include "csv.h"\n',
        [*cores, *relative("common.c", "random.c", "seq/isa.c", "csv.c")],
        PLAIN_FLAGS,
        [],
        headers=["nn.h", "csv.h"],
    )


def make_omp():
    """The fast kernels: SIMD, threads, one copy per instruction set."""
    compile_flags, link_flags = openmp_flags()
    sets = instruction_sets()
    defines = [f"-DNN_HAS_{isa.upper()}={index}" for index, isa in enumerate(sets)]
    cores = [
        write_if_changed(
            f"omp_{s}_{isa}.c",
            core_source(real, f"{s}_{isa}", INSTRUCTION_SETS[isa][1], isa),
        )
        for s, real in REALS.items()
        for isa in sets
    ]
    jumps = write_if_changed(
        "omp_entries.c", public_header() + entries((CSRC / "nn.h").read_text(), sets)
    )
    return extension(
        "_omp",
        public_header(),
        [*cores, jumps, *relative("common.c", "random.c", "omp/isa.c")],
        [*FAST_FLAGS, *fma_flags(), *compile_flags, *defines],
        link_flags,
    )


os.chdir(CSRC.parent)
seq = make_seq()
omp = make_omp()
