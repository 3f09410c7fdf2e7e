#!/usr/bin/env bash
# What takes longer than CI has; run it before an issue is resolved. It needs an environment with the test extra, in
# which the core was built: pip install -e '.[test]'.
set -euo pipefail
cd "$(dirname "$0")/.."

echo "== the tests marked long"
python -m pytest -q -n 2 --timeout 3000 -m long

echo "== ten times the examples that hypothesis draws, the kills, signals, forks and rounds of threads"
export NN_TEST_EFFORT=10
python -m pytest -q -n 2 --dist worksteal --timeout 3000 -m hypothesis
python -m pytest -q -n 2 --timeout 3000 -m "" -k "killed or moment" tests/files/test_checkpoint.py tests/utils/test_signals.py
python -m pytest -q --timeout 3000 -m "" -k "threads_predict or threads_test or forked" tests/backends/test_threads.py
unset NN_TEST_EFFORT

echo "== the tests of the C core under the sanitizers, with every instruction set that this processor has"
bash tests/check_core.sh --all
echo "== the tests of the C core under the thread sanitizer"
bash tests/check_races.sh
echo "== the tests of the C core on AArch64, emulated"
bash tests/check_arm.sh
echo "== the oldest versions of what nn needs"
bash tests/check_oldest.sh

echo "== changes of single lines that no test sees, to be read (where cosmic-ray is installed)"
if python -c "import cosmic_ray" 2>/dev/null; then python -m tests.mutations --most 25; fi
echo "== ten minutes of fuzzing"
python -m tests.fuzz --minutes 10
echo "== the wheel"
bash tests/wheel.sh

echo "== the tests of the GPU, where there is one"
python -m pytest -q -m "not long" tests/gpu
python -m pytest -q -m "not long" tests/nn/test_layers.py tests/train/test_weights.py -k "cuda or cudnn"
