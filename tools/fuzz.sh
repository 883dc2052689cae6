#!/usr/bin/env bash
# Builds the fuzz targets with libFuzzer (preset fuzz, clang 14) and runs each for a while:
#
#   tools/fuzz.sh                  every target, 30 s each
#   tools/fuzz.sh 600 gguf json    those two, 10 minutes each
#
# Starts from tests/fuzz/corpus and keeps what it learns in build/fuzz/corpus. A finding is written to
# build/fuzz/findings: copy it to tests/fuzz/corpus/NAME under a name that says what it is, and it stays a test.
# Exit status 1 if any target found something or none was run.
set -uo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-30}
shift || true
case $seconds in
  ''|*[!0-9]*) echo "usage: tools/fuzz.sh [SECONDS [TARGET...]]" >&2; exit 2 ;;
esac

names=("$@")
if [ ${#names[@]} -eq 0 ]; then
  for source in tests/fuzz/*_fuzz.cc; do
    name=$(basename "$source" _fuzz.cc)
    names+=("$name")
  done
fi
tools/build.sh fuzz "${names[@]/%/_fuzz}" || exit 1

mkdir -p build/fuzz/findings
found=0
ran=0
for name in "${names[@]}"; do
  learnt=build/fuzz/corpus/$name
  log=build/fuzz/$name.log
  mkdir -p "$learnt"
  seeds=(tests/fuzz/corpus/"$name")
  [ "$name" = template ] && seeds+=(tests/third_party/chat_templates)
  printf '%-20s %4s s ... ' "$name" "$seconds"
  # An input that takes more than 5 s or 2 GB is a finding as much as a crash is.
  if build/fuzz/tests/fuzz/"${name}"_fuzz -max_total_time="$seconds" -timeout=5 -rss_limit_mb=2048 -max_len=8192 \
      -print_final_stats=1 -artifact_prefix=build/fuzz/findings/"$name"- "$learnt" "${seeds[@]}" > "$log" 2>&1; then
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    cover=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -1)
    echo "$runs executions, $cover edges, nothing found"
  else
    echo "FOUND SOMETHING, see $log"
    grep -E "^(CHECK failed|==[0-9]+==ERROR|SUMMARY|Test unit written)|runtime error" "$log" | head -5
    found=$((found + 1))
  fi
  ran=$((ran + 1))
done
echo "fuzz: $ran targets, $found with findings"
[ "$ran" -gt 0 ] && [ "$found" -eq 0 ]
