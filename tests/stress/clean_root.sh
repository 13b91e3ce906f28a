#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs a command in a root of its own, as a new user of a container would: the system, the Python and this checkout
# read-only, an empty /home/user, /tmp and /var/tmp, no cargo. To be started under `unshare -m`, as root.
# Usage: clean_root.sh CHECKOUT "MOUNTS" COMMAND...    MOUNTS is run in the new root before the command.
set -euo pipefail
checkout="$1" mounts="$2"
shift 2
mount --make-rprivate /
root="$(mktemp -d)"
mount -t tmpfs -o size=2g tmpfs "$root"
for path in /usr /bin /sbin /lib /lib64 /etc "$PYTHON_BASE" "$PYTHON_PREFIX" "$checkout" ${EXTRA:-}; do
    if [ -L "$path" ]; then
        mkdir -p "$(dirname "$root$path")"
        cp -a "$path" "$root$path"
    elif [ -d "$path" ]; then
        mkdir -p "$root$path"
        mount --bind "$path" "$root$path"
        mount -o remount,bind,ro "$root$path"
    fi
done
mkdir -p "$root"/{proc,dev,home/user,tmp,var/tmp,run}
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/dev/shm"
mount -t tmpfs tmpfs "$root/tmp"
mount -t tmpfs tmpfs "$root/var/tmp"
chmod 1777 "$root/tmp" "$root/var/tmp" "$root/dev/shm"
chroot "$root" bash -euc "$mounts"
exec chroot "$root" env -i HOME=/home/user PATH=/usr/bin:/bin PYTHONPATH="$checkout" PYTHONDONTWRITEBYTECODE=1 \
    TILEGYM_RS_CPU=execute LANG=C.UTF-8 "$@"
