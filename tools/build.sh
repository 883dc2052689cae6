#!/usr/bin/env bash
# Configures and builds one preset: tools/build.sh PRESET [TARGET...]. Shows ninja's own progress; the noise of
# the configuration step only when it fails.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift
# What another checkout compiled can be used here: paths below this one count as relative.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
# And with headers that were compiled there (cmake/Precompiled.cmake).
export CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_PCH_EXTSUM=1
mkdir -p "build/$preset"
if ! cmake --preset "$preset" > "build/$preset/configure.log" 2>&1; then
  cat "build/$preset/configure.log" >&2
  echo "configuration of $preset failed" >&2
  exit 1
fi
if [ $# -gt 0 ]; then
  cmake --build --preset "$preset" --target "$@"
else
  cmake --build --preset "$preset"
fi
