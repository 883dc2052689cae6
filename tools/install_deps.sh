#!/usr/bin/env bash
# Installs the Debian packages named in the given list files: directly as root, through sudo where it asks
# for nothing, and otherwise prints the one command to run. Silent when everything is there.
#
# Debian starts a server as soon as its package is installed, and at every later boot. Tests start their own
# servers on their own ports, so a service that did not run before is neither started nor enabled. Debian asks
# /usr/sbin/policy-rc.d before it starts a service: while apt-get runs, that is a script of ours. A script that
# already stood there is asked as well and is put back afterwards.
set -euo pipefail
readonly policy=${TUTTI_POLICY_RC:-/usr/sbin/policy-rc.d} mark='# Written by install_deps.sh.'
readonly saved=$policy.before-install-deps

is_installed() {
  dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'ok installed'
}

# Of list files: the packages that are not installed. "a|b" stands for either, as releases of Debian name them.
list_missing() {
  local entry package
  for entry in $(cat "$@" | grep -v '^#' | sort -u); do
    for package in ${entry//|/ }; do
      if is_installed "$package"; then continue 2; fi
    done
    echo "$entry"
  done
}

# The first package of each entry that this release of Debian has; the last one where it has none, for apt's message.
list_available() {
  local entry package
  for entry in "$@"; do
    for package in ${entry//|/ }; do
      if [ "$package" = "$entry" ] || [ -n "$(apt-cache search --names-only "^${package//+/\\+}\$")" ]; then break; fi
    done
    echo "$package"
  done
}

# Services that may be started again, one a line, without ".service": those that run. Without systemd, those that are
# installed: an init script cannot be asked, as the status of rabbitmq-server starts a daemon.
list_running() {
  if [ -d /run/systemd/system ]; then
    systemctl list-units --plain --no-legend --state=active --type=service,socket |
      sed -E 's/^(\S+)\.(service|socket)\s.*/\1/'
    return
  fi
  local script package
  for script in /etc/init.d/*; do
    package=$(dpkg-query -S "$script" 2>/dev/null | cut -d: -f1) || continue
    if [ -z "$(list_missing - <<< "$package")" ]; then basename "$script"; fi
  done
}

# A run that was killed leaves its script behind: it is ours by its mark.
restore_policy() {
  if grep -qsxF "$mark" "$policy"; then rm -f "$policy"; fi
  if [ -e "$saved" ] || [ -L "$saved" ]; then mv -f "$saved" "$policy"; fi
}

# Exit status 101 means "do not". Actions that only stop a service are left to the script that stood here before.
write_policy() {
  if [ -e "$policy" ] || [ -L "$policy" ]; then mv -f "$policy" "$saved"; fi
  cat > "$policy.new" <<POLICY
#!/bin/sh
$mark
if [ -x '$saved' ]; then '$saved' "\$@" || exit \$?; fi
while [ "\${1#-}" != "\${1:-}" ]; do shift; done
service=\${1%.service}
service=\${service%.socket}
case " \$2 " in *start*) ;; *) exit 0 ;; esac
grep -qxF -- "\$service" '$work/running' && exit 0
echo "\$service" >> '$work/not-started'
exit 101
POLICY
  chmod 755 "$policy.new"
  mv -f "$policy.new" "$policy"
}

clean_up() {
  restore_policy
  rm -rf "$work"
}

# Units of systemd that start at boot, one a line.
list_enabled() {
  find /etc/systemd/system -path '*.wants/*' \( -name '*.service' -o -name '*.socket' \) -printf '%f\n' 2>/dev/null |
    sort -u || true
}

# What was kept from starting now is also not started at the next boot. Some units are enabled only.
disable_not_started() {
  local service unit
  for service in $(sort -u "$work/not-started" 2>/dev/null); do
    if [ -e "/etc/init.d/$service" ]; then update-rc.d "$service" disable; fi
  done > /dev/null 2>&1 || true
  for unit in $(list_enabled | comm -13 "$work/enabled" -); do
    if ! grep -qxF "${unit%.*}" "$work/running"; then DPKG_MAINTSCRIPT_PACKAGE=tutti deb-systemd-helper disable "$unit"; fi
  done > /dev/null 2>&1 || true
}

missing=($(list_missing "$@"))
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" != 0 ]; then
  if sudo -n true 2>/dev/null; then exec sudo -n "$0" "$@"; fi
  echo "${#missing[@]} Debian packages are missing: ${missing[*]}" >&2
  echo "Please run: sudo $0 $*" >&2
  exit 1
fi

echo "installing ${#missing[@]} Debian packages: ${missing[*]}"
exec 9< "$(dirname "$policy")"
flock 9
readonly work=$(mktemp -d) log=$(mktemp)
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
restore_policy
list_running > "$work/running"
list_enabled > "$work/enabled"
write_policy
export DEBIAN_FRONTEND=noninteractive
install_missing() {
  apt-get update && apt-get install -y --no-install-recommends $(list_available "${missing[@]}")
}
if ! install_missing > "$log" 2>&1; then
  tail -n 30 "$log" >&2
  echo "package installation failed (whole log: $log)" >&2
  exit 1
fi
rm -f "$log"
disable_not_started
if [ -s "$work/not-started" ]; then
  echo "installed and left stopped: $(sort -u "$work/not-started" | tr '\n' ' ')"
fi
