#!/bin/sh
# Installs Segue and the extras that are named, separated by commas, with the locked packages and their hashes:
#
#   packaging/install.sh [PYTHON] [EXTRAS]
set -eu
python=${1:-python3}
folder=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)
install() {
    "$python" -m pip install --quiet --disable-pip-version-check --no-deps "$@"
}
install --require-hashes -r "$folder/requirements/core.txt"
for extra in $(printf %s "${2:-}" | tr , ' '); do
    install --require-hashes -r "$folder/requirements/extras/$extra.txt"
done
install --no-build-isolation "$folder"
