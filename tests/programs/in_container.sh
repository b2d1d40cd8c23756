#!/bin/sh
# Runs its arguments with the folder ROOT as their file system, in a mount namespace of their own, which goes with them. The folders of SHARED
# (with colons between them) are there as they are here.
PATH=/usr/sbin:/usr/bin:/sbin:/bin FROM=$PWD exec unshare --mount --propagation private sh -ec '
    mount --bind "$ROOT" "$ROOT"
    IFS=:
    for folder in $SHARED; do
        mkdir -p "$ROOT$folder"
        mount --bind "$folder" "$ROOT$folder"
    done
    mount -t proc proc "$ROOT/proc"
    mount --rbind /dev "$ROOT/dev"
    cd "$ROOT"
    mkdir -p outside
    pivot_root . outside
    umount -l /outside
    cd "$FROM"
    exec "$@"' sh "$@"
