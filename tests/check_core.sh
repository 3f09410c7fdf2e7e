#!/usr/bin/env bash
# Builds the C core with every warning an error and the address and undefined-behaviour sanitizers in it, and runs
# the tests of the core, of the data readers and of the promises about numbers against that build. -O1: the optimizer
# removes no access before it is checked, and the build takes two thirds of the time. -fno-wrapv: Python's own flags may
# have -fwrapv, under which no overflow of signed numbers is found. How long such a build takes for something is not
# tested; so two tests may run at a time. Where there is AMX, the set below it differs from it in no source but amx.c.
set -euo pipefail
cd "$(dirname "$0")/.."
export NN_SHARED="${NN_SHARED:-$(dirname "$PWD")/shared}"

build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
cp -r setup.py pyproject.toml README.md LICENSE csrc nn datasets tests "$build"
find "$build" -name '*.so' -delete
compiler=${CC:-cc}
cd "$build" # so that what was built here is what the tests import
NN_CFLAGS="-Werror -O1 -g1 -fno-wrapv -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer" \
    python setup.py -q build_ext --inplace
LD_PRELOAD="$("$compiler" -print-file-name=libasan.so) $("$compiler" -print-file-name=libubsan.so)" \
    ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
    python -m pytest -q -p no:cacheprovider -x -n 2 \
    --deselect tests/test_ds.py::test_reading_takes_at_most_one_and_a_half_times_as_long_as_pandas \
    --deselect 'tests/test_promises.py::test_lesser_instruction_sets_are_right_too[avx512]' \
    tests/test_reference.py tests/test_promises.py tests/test_layers.py tests/test_gradients.py tests/test_ds.py
