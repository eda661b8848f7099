# podman and runc without a daemon, kept apart from the machine's own.  Sourced after base.bash.

base=localhost/seqd-base:bookworm
image=localhost/seqd:check
need podman buildah runc curl jq

# For machines without systemd, without unified cgroups and without the right to raise limits.
cat >"$state/containers.conf" <<CONF
[containers]
default_ulimits = []
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
tmp_dir = "$state/libpod"
[network]
network_config_dir = "$state/networks"
CONF
cat >"$state/storage.conf" <<CONF
[storage]
driver = "${DRIVER:-overlay}"
graphroot = "$state/storage"
runroot = "$state/run"
CONF
export CONTAINERS_CONF=$state/containers.conf CONTAINERS_STORAGE_CONF=$state/storage.conf

# Docker's own format: the other one has no HEALTHCHECK.
build() { # LOG NAME OPTION...
    local log=$state/$1.log name=$2
    shift 2
    podman build -q --pull=never --isolation chroot --format docker -t "$name" "$@" >"$log" 2>&1 ||
        { tail -n 40 "$log" && fail "$name is built"; }
}

build_image() {
    make_base_tar
    podman image exists "$base" ||
        podman import -q --change 'CMD ["bash"]' "$base_tar" "$base" >/dev/null
    build build "$image" --build-arg BASE="$base" --build-arg VERSION="$(<VERSION)" .
    step 'the image is built'
}

# The script anew, with networks and mounts of its own: ports are free there, and end with it.
own_namespace() {
    exec env IN_NAMESPACE=1 unshare -nm "$here/$part.sh"
}
