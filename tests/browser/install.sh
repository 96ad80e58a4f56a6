#!/bin/sh
# Installs Chromium for the browser tests where that can be done without asking: as root, with apt-get.
# Elsewhere the tests themselves skip, and say what to install; with CI=true they fail.
set -eu
python=$1
if "$python" tests/browser/find_chromium.py >/dev/null 2>&1; then
    exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    exit 0
fi
echo "installing Chromium for the browser tests"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# A font too: without one Chromium draws no text.
apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core </dev/null
