#!/bin/sh
# Creates the environment: a Python 3.11 or later, the locked dependencies, this package, and a Java for Spark.
set -eu

venv=$1

is_recent() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

python=
for candidate in "${PYTHON:-}" python3 python3.14 python3.13 python3.12 python3.11 python; do
    if [ -n "$candidate" ] && is_recent "$candidate"; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "Evenly needs Python 3.11 or later: install one (on Debian: apt-get install python3 python3-venv) or name it with PYTHON=..." >&2
    exit 1
fi

echo "Setting up $venv with $("$python" --version) (once; takes a few minutes)"
if ! "$python" -m venv --clear "$venv"; then
    echo "Python's venv module does not work: install it (on Debian: apt-get install python3-venv)" >&2
    exit 1
fi
# uv, which is one of the locked dependencies, installs the others in a tenth of pip's time; where it has no build, pip does.
awk '/^uv==/ {found = 1; print; next} /^[^ ]/ {found = 0} found' requirements.lock >"$venv/uv.lock"
if "$venv/bin/python" -m pip install --quiet --require-hashes --requirement "$venv/uv.lock" 2>/dev/null; then
    "$venv/bin/uv" pip install --quiet --python "$venv/bin/python" --require-hashes --requirement requirements.lock
else
    "$venv/bin/python" -m pip install --quiet --require-hashes --requirement requirements.lock
fi
"$venv/bin/python" -m pip install --quiet --no-deps --no-build-isolation --editable .
echo "Java: $("$venv/bin/python" -m evenly.spark.java)"
