#!/bin/bash
# Installs Debian's Chromium for the browser tests, where that can be done: needs root and apt.
# Ends with 0 where Chromium is there afterwards; else with 1 and one line that says why not.
set -eu

fail() { echo "install_chromium: $*" >&2; exit 1; }

for name in chromium chromium-browser google-chrome google-chrome-stable; do
    command -v "$name" >/dev/null && exit 0
done
[ "$(id -u)" = 0 ] || fail 'installation needs root'
command -v apt-get >/dev/null || fail 'no apt-get here'
export DEBIAN_FRONTEND=noninteractive
# Without a mirror it gives up within seconds, not when the connection does.
waiting='-o Acquire::http::Timeout=10 -o Acquire::https::Timeout=10 -o Acquire::Retries=0'
# shellcheck disable=SC2086
timeout 60 apt-get -qq $waiting update >/dev/null 2>&1 || fail 'apt-get update failed: no package mirror in reach?'
# shellcheck disable=SC2086
timeout 300 apt-get -qq $waiting install -y --no-install-recommends chromium fonts-dejavu-core >/dev/null 2>&1 \
    || fail 'apt-get install chromium failed'
command -v chromium >/dev/null || fail 'the package chromium holds no program of that name'
