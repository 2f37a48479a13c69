#!/bin/sh
# Installs the wheel with all that it needs into a new environment for each Python that there is, and runs the demo from it.
#
#     sh scripts/wheel.sh .venv/bin/python [VERSION...]
set -eu

python=$1
shift
versions=${*:-3.11 3.12 3.13 3.14}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

"$python" -m hatchling build --target wheel --directory "$folder"
wheel=$(echo "$folder"/*.whl)
tried=0
for version in $versions; do
    if ! "$python" -m uv venv --quiet --no-python-downloads --python "$version" "$folder/$version" 2>/dev/null; then
        echo "Python $version: not on this machine"
        continue
    fi
    "$python" -m uv pip install --quiet --python "$folder/$version/bin/python" "$wheel[spark,java]"
    (cd "$folder" && "$version/bin/evenly" --version && "$version/bin/evenly" demo --rows 60000 --instances 4 --wait-us 5 --json >/dev/null)
    echo "Python $version: the wheel is installed and runs"
    tried=$((tried + 1))
done
test "$tried" -gt 0
