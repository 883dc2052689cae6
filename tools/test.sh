#!/usr/bin/env bash
# The whole suite: tools/test.sh SANITIZED, the programs to run again under sanitizers as "a_test|b_test".
# The suite leaves about a quarter of two cores idle (it waits for servers, brokers and clocks). The sanitized build
# takes that quarter: the kernel's idle class gets the processor only while no test wants it.
set -euo pipefail
cd "$(dirname "$0")/.."
sanitized=$1
IFS='|' read -ra targets <<<"$sanitized"

tools/build.sh release

mkdir -p build/asan-ubsan
log=build/asan-ubsan/build.log
# A process group of its own, to be stopped as one, but not a session: the kernel shares the processors between sessions
# first (sched_autogroup), whatever their class.
set -m
chrt --idle 0 tools/build.sh asan-ubsan "${targets[@]}" >"$log" 2>&1 </dev/null &
build=$!
set +m
stop_build() {
  kill -- "-$build" 2>/dev/null || true
}
trap stop_build EXIT

tools/run_tests.py build/release

echo "building the sanitized programs, begun beside the suite ($log)"
tail --pid="$build" -n 1 -f "$log" &
shown=$!
if ! wait "$build"; then
  kill "$shown" 2>/dev/null || true
  cat "$log"
  echo "the build of the sanitized programs failed" >&2
  exit 1
fi
wait "$shown" || true
trap - EXIT
tools/run_tests.py build/asan-ubsan --shorten --only "$sanitized"
