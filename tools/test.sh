#!/usr/bin/env bash
# The whole suite, and the tests of UNTRUSTED folders (cmake/TuttiFolder.cmake) again under sanitizers.
# The suite leaves about a quarter of two cores idle (it waits for servers, brokers and clocks). The sanitized build
# takes that quarter: the kernel's idle class gets the processor only while no test wants it.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/build.sh release

mkdir -p build/sanitized
log=build/sanitized/build.log
# The kernel may share the processors between sessions first (sched_autogroup), whatever the class of their processes.
# So the build gets a session of its own with the least weight: the servers that tests start have sessions too.
setsid bash -c 'echo 19 2>/dev/null >/proc/self/autogroup; exec chrt --idle 0 tools/build.sh sanitized untrusted_tests' \
  >"$log" 2>&1 </dev/null &
build=$!
stop_build() {
  kill -- "-$build" 2>/dev/null || true
}
trap stop_build EXIT

tools/run_tests.py build/release

echo 0 2>/dev/null >"/proc/$build/autogroup" || true  # the rest of it at full speed
echo "building the sanitized programs, begun with the suite ($log)"
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
tools/run_tests.py build/sanitized --shorten
