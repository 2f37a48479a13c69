#!/bin/sh
# Runs tests/old_spark on the earlier releases of PySpark that Evenly serves, each in an environment of its own that is then removed.
# sh scripts/old_spark.sh PYTHON [RELEASE...]      releases: 3.5 4.0 (the default)
set -eu

python=$1
shift
[ $# -gt 0 ] || set -- 3.5 4.0

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT INT TERM

for release in "$@"; do
    echo "PySpark $release: installing (about 300 MB)"
    "$python" -m venv "$folder/$release"
    "$folder/$release/bin/python" -m pip install --quiet "pyspark[sql]==$release.*" '.[spark]' pytest
    echo "PySpark $release: testing"
    "$folder/$release/bin/python" -m pytest tests/old_spark --confcutdir tests/old_spark -W default
    rm -rf "${folder:?}/$release"
done
