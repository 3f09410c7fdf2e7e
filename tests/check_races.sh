#!/usr/bin/env bash
# Builds the C core with the thread sanitizer and runs the tests of the core and of reading in pieces against it: any
# race fails. In the place of libgomp stands tests/support/plain_threads.c, whose threads the sanitizer sees. First
# a race that was planted must be found, and the core's barrier must be enough to mend it. Arguments go to pytest.
# What is watched takes 10 to 100 times as long, so nothing is watched for nothing. One instruction set is tested:
# threads meet in the same places in all of them. -O2: without it the sums of a product are in memory, and each step of
# each sum is watched. The plain kernels (build/csrc/seq_*.c) compute on one thread and are built as they always are.
# The sanitizer starts no threads in processes that are forked: their tests are left out.
set -euo pipefail
cd "$(dirname "$0")/.."
export NN_SHARED="${NN_SHARED:-$(dirname "$PWD")/shared}"

build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
cp -r setup.py pyproject.toml README.md LICENSE csrc nn datasets tests "$build"
find "$build" -name '*.so' -delete
compiler=${CC:-gcc}
cd "$build" # so that what was built here is what the tests import
flags=(-O2 -g1 -fno-omit-frame-pointer)
"$compiler" "${flags[@]}" -shared -fPIC tests/support/plain_threads.c -o threads.so -ldl -lpthread
"$compiler" "${flags[@]}" -fopenmp -fsanitize=thread tests/support/planted_race.c csrc/common.c -Icsrc -o planted

# NumPy's library has threads of its own, which meet where the sanitizer does not see it: it gets one.
# Python's write of `stop` in nn_progress is a copy of four aligned bytes, which the core reads with an atomic load.
echo "race:_cffi_memcpy" > suppressions
watched() {
    env OPENBLAS_NUM_THREADS=1 LD_PRELOAD="$("$compiler" -print-file-name=libtsan.so) $build/threads.so" \
        TSAN_OPTIONS="log_path=$build/race suppressions=$build/suppressions exitcode=0" "$@"
}
found() { ls "$build"/race.* > /dev/null 2>&1; }

watched ./planted > /dev/null
! found || { cat race.*; echo "a false report: the sanitizer does not see the core's barrier"; exit 1; }
watched ./planted race > /dev/null
found || { echo "a planted race was not found"; exit 1; }
rm race.*

cat > compile << END
#!/usr/bin/env bash
for argument; do
    [[ \$argument != *csrc/seq_*.c ]] || set -- "\$@" -fno-sanitize=thread
done
exec $compiler "\$@"
END
chmod +x compile
CC="$build/compile" NN_BUILD_ISA=${NN_BUILD_ISA:-avx2} \
    NN_CFLAGS="${flags[*]} -fsanitize=thread -Wno-maybe-uninitialized" python setup.py -q build_ext --inplace
[ $# -gt 0 ] || set -- tests/backends/test_{promises,pack,reference,threads}.py tests/train/test_{weights,vary}.py \
    tests/nn/test_{layers,gradients,activations,embedding}.py tests/core/test_intervals.py tests/data/test_csv_pieces.py
watched python -m pytest -q -n 2 --dist worksteal -p no:cacheprovider --timeout 3000 \
    -m "not timing and not long" -k "not lesser and not forked" "$@"
! found || { cat race.*; exit 1; }
echo "no races"
