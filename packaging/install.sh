#!/bin/sh
# Installs Segue and the extras that are named, separated by commas, with the locked packages and their hashes:
#
#   packaging/install.sh [PYTHON] [EXTRAS]
#
# A Python that the system manages takes no packages (PEP 668): then Segue gets an environment of its own, and
# `segue` is put into ~/.local/bin.
set -eu
python=${1:-python3}
folder=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)
install() {
    "$python" -m pip install --quiet --disable-pip-version-check --no-deps "$@"
}
managed='import os, sys, sysconfig
marker = os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")
print(sys.prefix == sys.base_prefix and os.path.exists(marker))'
own=
if [ "$("$python" -c "$managed")" = True ]; then
    own=${XDG_DATA_HOME:-$HOME/.local/share}/segue/venv
    "$python" -m venv "$own"
    python=$own/bin/python
fi
install --require-hashes -r "$folder/requirements/core.txt"
if [ -n "${2:-}" ]; then
    locked=$("$python" "$folder/packaging/extra.py" "$2")
    printf '%s\n' "$locked" | install --require-hashes -r /dev/stdin
fi
install --no-build-isolation "$folder"
if [ -n "$own" ]; then
    mkdir -p "$HOME/.local/bin"
    ln -sf "$own/bin/segue" "$HOME/.local/bin/segue"
    echo "Installed in $own, because the system manages its Python; the command is ~/.local/bin/segue."
    case ":$PATH:" in
        *":$HOME/.local/bin:"*) ;;
        *) echo "Put it on your PATH: export PATH=\"\$HOME/.local/bin:\$PATH\"" ;;
    esac
fi
