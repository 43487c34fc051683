#!/bin/busybox sh
# A file system whose server stops: NFS 4.1, with client and server in the kernel of the machine. The shares of the server
# are written into the kernel's tables (/proc/net/rpc), which otherwise programs of nfs-utils fill.
#   . network_files.sh; serve_files FOLDER FILE…; stop_serving

# serve_files FOLDER FILE…: FILE… are in FOLDER, a mount of NFS.
serve_files() {
  folder=$1
  shift
  while read -r module; do insmod "/vitrine/$module" || return 1; done </vitrine/modules
  mkdir -p /tmp/shared "$folder"
  mount -t tmpfs shared /tmp/shared || return 1
  cp "$@" /tmp/shared || return 1
  mount -t nfsd nfsd /proc/fs/nfsd || return 1
  ip link set lo up
  later=$(($(date +%s) + 100000))
  # A client, and what is shared, read-only, as the root of all shares (fsid 0): NFSEXP_READONLY, _INSECURE_PORT, _FSID.
  echo "nfsd 127.0.0.1 $later local" >/proc/net/rpc/auth.unix.ip/channel || return 1
  echo "local /tmp/shared $later $((0x2000 + 3)) 65534 65534 0" >/proc/net/rpc/nfsd.export/channel || return 1
  echo "local 1 \\x00000000 $later /tmp/shared" >/proc/net/rpc/nfsd.fh/channel || return 1
  echo '-2 -3 +4 +4.1' >/proc/fs/nfsd/versions
  for seconds in leasetime gracetime; do echo 10 >/proc/fs/nfsd/nfsv4$seconds; done  # no less; files open after it
  echo 'tcp 2049' >/proc/fs/nfsd/portlist || return 1
  echo 2 >/proc/fs/nfsd/threads || return 1
  busybox mount -t nfs4 -o vers=4.1,addr=127.0.0.1,clientaddr=127.0.0.1,hard,sec=sys 127.0.0.1:/ "$folder"
}

# The server does not respond from now on.
stop_serving() {
  ip link set lo down
  echo 3 >/proc/sys/vm/drop_caches
}
