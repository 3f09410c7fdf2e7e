#!/usr/bin/env bash
# Installs the oldest versions that pyproject.toml allows, of what nn needs and of what its tests need, into an
# environment of their own, and runs the tests there: a lower bound that does not work fails. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
export NN_SHARED="${NN_SHARED:-$(dirname "$PWD")/shared}"

oldest=$(mktemp -d)
trap 'rm -rf "$oldest"' EXIT
"${PYTHON:-python3}" -m venv "$oldest/venv"
python="$oldest/venv/bin/python"
cp -r setup.py pyproject.toml README.md LICENSE csrc nn datasets tests "$oldest"
cp -r ./*.md .ci docs slurm "$oldest"
find "$oldest/nn" -name '*.so' -delete
"${PYTHON:-python3}" - > "$oldest/bounds" << 'END'
import re
from pathlib import Path

text = Path("pyproject.toml").read_text()
needed = "".join(re.search(rf"^{key} = \[(.*)\]$", text, re.M).group(1) for key in ("dependencies", "test"))
for name, bound, condition in re.findall(r'"([\w.-]+)>=([\d.]+)(;[^"]*)?"', needed):
    print(f"{name}=={bound}{condition}")
END
cat "$oldest/bounds"
"$python" -m pip install -q --disable-pip-version-check -r "$oldest/bounds"
cd "$oldest" # so that what is built here is what the tests import
"$python" -m pip install -q --disable-pip-version-check --no-build-isolation -e '.[test]' -c bounds
"$python" -m pytest -q -n 2 -p no:cacheprovider --timeout 3000 -m "not timing and not long" "$@"
