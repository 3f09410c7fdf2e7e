#!/usr/bin/env bash
# Builds the C core with every warning an error and the address and undefined-behaviour sanitizers in it, and runs
# the tests of the core, of the data readers and of the promises about numbers against that build, and reads changed CSV
# files. -O1: the optimizer removes no access before it is checked, and the build takes two thirds of the time.
# -fno-wrapv: Python's own flags may have -fwrapv, under which no overflow of signed numbers is found. How long such a
# build takes for something is not tested; so two tests may run at a time. Of the instruction sets below the processor's
# best, one batch and the products are checked; with --all every test runs, those marked slow too.
set -euo pipefail
cd "$(dirname "$0")/.."
export NN_SHARED="${NN_SHARED:-$(dirname "$PWD")/shared}"

chosen="(not lesser or not avx512 and products) and not ("
# what takes no way through the core that others of these tests do not take
chosen+="three_epochs or contributions_are_written or in_a_terminal or no_background or command_says"
chosen+=" or stored_outputs and norm)"
marks="not timing and not slow and not long"
[ "${1:-}" != --all ] || { chosen='' marks="not timing and not long"; }

build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
cp -r setup.py pyproject.toml README.md LICENSE csrc nn datasets tests "$build"
find "$build" -name '*.so' -delete
compiler=${CC:-cc}
cd "$build" # so that what was built here is what the tests import
NN_CFLAGS="-Werror -O1 -g1 -fno-wrapv -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer" \
    python setup.py -q build_ext --inplace
sanitized=(env LD_PRELOAD="$("$compiler" -print-file-name=libasan.so) $("$compiler" -print-file-name=libubsan.so)"
    ASAN_OPTIONS=detect_leaks=0:quarantine_size_mb=16 UBSAN_OPTIONS=print_stacktrace=1)
PYTHONPATH="$build/tests" "${sanitized[@]}" python -m fuzz --seed 1 --runs 1500 --target csv --target csv-flags \
    --target csv-predict
"${sanitized[@]}" python -m pytest -q -p no:cacheprovider -x -n 2 --dist worksteal -m "$marks" \
    -k "$chosen" tests/nn/test_{layers,gradients,activations,embedding}.py tests/test/test_explain.py \
    tests/backends/test_{reference,promises,pack,scales}.py \
    tests/data/test_{ds,csv,csv_source,csv_fields,csv_head}.py \
    tests/core/test_intervals.py::test_resamples_have_all_rows_drawn_evenly_and_differ_by_number_and_seed
