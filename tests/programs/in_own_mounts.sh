# Runs its arguments with a mount namespace of their own, in which FULL is a tmpfs of 20 MiB and READ_ONLY one that is read-only.
exec unshare --mount --propagation private sh -c '
    mount -t tmpfs -o size=20m tmpfs "$FULL" && mount -t tmpfs -o ro tmpfs "$READ_ONLY" && exec "$@"' sh "$@"
