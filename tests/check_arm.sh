#!/usr/bin/env bash
# Builds the wheel for AArch64 with Debian's cross compiler, every warning an error, and runs the tests of the C core on
# it under qemu-user. Python is Debian's for arm64, unpacked to a temporary folder: this needs no root and leaves the
# system as it is. Needs: apt install qemu-user gcc-aarch64-linux-gnu; what is missing is skipped, and said.
#
# Most tests of any number of threads are left out: how a sum is divided is the same code on every processor, emulated
# threads keep this processor's order of memory, and they take longest. Metrics are NumPy's. Arguments go to pytest in
# place of all that.
set -euo pipefail
cd "$(dirname "$0")/.."
export NN_SHARED="${NN_SHARED:-$(dirname "$PWD")/shared}"
unset PYTHONPATH PYTHONHOME # of this machine's Python

skip() { echo "skipped: no tests on AArch64: $*"; exit 0; }
for program in qemu-aarch64:qemu-user aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu; do
    command -v "${program%:*}" > /dev/null || skip "${program%:*} is not installed: apt install ${program#*:}"
done
grep -qx ID=debian /etc/os-release 2> /dev/null || skip "Python for it is taken from Debian, and this is none"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
python=$root/usr/bin/python # beside python3.N, so that it finds its library
quietly() { "$@" > "$work/log" 2>&1 || { tail -n 30 "$work/log"; exit 1; }; }

echo "== Debian's Python for arm64"
mkdir -p "$work/apt/lists/partial" "$work/apt/archives/partial" "$root"
: > "$work/apt/status"
cat > "$work/apt.conf" << END
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
Dir::State "$work/apt";
Dir::State::status "$work/apt/status";
Dir::Cache "$work/apt";
END
export APT_CONFIG=$work/apt.conf
quietly apt-get update
quietly apt-get install --yes --no-install-recommends --download-only libpython3-dev python3 libgomp1 libstdc++6
for package in "$work"/apt/archives/*.deb; do dpkg-deb --extract "$package" "$root"; done
version=$(cd "$root/usr/bin" && echo python3.*[0-9])
# Python takes this for itself, and starts it where a test starts Python; compilers that it starts run unemulated.
cat > "$python" << END
#!/bin/sh
exec qemu-aarch64 -L '$root' -0 "\$0" '$root/usr/bin/$version' "\$@"
END
chmod +x "$python"

install() { # packages for the emulated Python, by this machine's pip
    quietly python -m pip install --disable-pip-version-check --target "$root/usr/lib/python3/dist-packages" \
        --platform linux_aarch64 --platform manylinux2014_aarch64 --platform manylinux_2_17_aarch64 \
        --platform manylinux_2_27_aarch64 --platform manylinux_2_28_aarch64 \
        --python-version "${version#python}" --implementation cp --only-binary=:all: "$@"
}

echo "== the wheel, without a warning"
mkdir "$work/source" "$work/tests"
cp -r setup.py pyproject.toml README.md LICENSE csrc nn "$work/source"
cp -r pyproject.toml datasets tests "$work/tests" # without nn: what is tested is the wheel
find "$work/source" -name '*.so' -delete
install setuptools cffi
compiler="aarch64-linux-gnu-gcc --sysroot=$root -I$root/usr/include/$version"
(cd "$work/source" && CC=$compiler NN_CFLAGS=-Werror quietly "$python" setup.py -q bdist_wheel -d "$work/dist")
wheel=$(echo "$work"/dist/*.whl)
has() { command -v "$1" > /dev/null || { echo "skipped: $1 is not installed: pip install $1" && false; }; }
if has auditwheel; then
    LD_LIBRARY_PATH=$root/usr/lib/aarch64-linux-gnu quietly auditwheel repair -w "$work/repaired" "$wheel"
    auditwheel show "$work"/repaired/*.whl
fi
if has abi3audit; then abi3audit --strict "$wheel"; fi
install "$wheel" pytest pytest-timeout pytest-xdist hypothesis scipy

cd "$work/tests"
echo "== training and testing by the wheel"
"$python" -m nn --train --dataset datasets/CC.csv --layers 30,60,10,1 --epochs 2 --model m.bin
"$python" -m nn --test --model m.bin

echo "== the tests of the C core"
[ $# -gt 0 ] || set -- -k "not cuda and not cudnn and (not any_thread_count or product_is_right)" \
    tests/backends/test_{reference,promises,pack}.py tests/nn/test_{layers,gradients,activations,embedding}.py \
    tests/train/test_weights.py tests/core/test_intervals.py tests/data/test_{csv,csv_fields,csv_head}.py
"$python" -m pytest -q -p no:cacheprovider -n 2 --dist worksteal --timeout 3000 -m "not timing and not long" "$@"
