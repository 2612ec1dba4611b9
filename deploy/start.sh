#!/bin/sh
# Put the machine code of the image where it can be read and written, and run the command: `start serve ...`.
set -eu
mkdir -p "$NUMBA_CACHE_DIR"
cp -R /opt/kernels/. "$NUMBA_CACHE_DIR"
exec conebandit "$@"
