#!/usr/bin/env bash
# Installs the Debian packages named in the given list files: directly as root, through sudo where it asks
# for nothing, and otherwise prints the one command to run. Silent when everything is there.
set -euo pipefail
wanted=$(cat "$@" | grep -v '^#' | sort -u)
missing=()
for package in $wanted; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0
install="apt-get install -y --no-install-recommends ${missing[*]}"
if [ "$(id -u)" = 0 ]; then run=(env DEBIAN_FRONTEND=noninteractive)
elif sudo -n true 2>/dev/null; then run=(sudo -n env DEBIAN_FRONTEND=noninteractive)
else
  echo "Some Debian packages are missing. Please run:" >&2
  echo "  sudo apt-get update && sudo $install" >&2
  exit 1
fi
echo "installing ${#missing[@]} Debian packages: ${missing[*]}"
log=$(mktemp)
if ! { "${run[@]}" apt-get update && "${run[@]}" $install; } >"$log" 2>&1; then
  tail -n 30 "$log" >&2
  echo "package installation failed (whole log: $log)" >&2
  exit 1
fi
rm -f "$log"
