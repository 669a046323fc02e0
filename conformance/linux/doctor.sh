# Guest script: `nfsdemo doctor` on a machine without and with an iWARP device. The command that it prints
# must mount.
#   PORT, MOUNTPORT  where the server is; nfsdemo itself is on the share
M=/mnt/nfs
mkdir -p $M
doctor() { /mnt/share/nfsdemo doctor "nfs+rdma://10.0.2.2:$PORT/?mountport=$MOUNTPORT" >/tmp/doctor; }
without() { # the server is in order, this machine is not
  local rc=0
  doctor || rc=$?
  [ $rc = 3 ] && grep -q '^FAILED   device' /tmp/doctor && grep -q 'rdma link add siw0 type siw' /tmp/doctor
}
check "doctor misses the iWARP device" without
siw_up || { echo "FAIL siw"; exit 1; }
check "doctor finds nothing wrong" doctor
printed() {
  local line
  line=$(grep -o 'mount -t nfs -o .*' /tmp/doctor) || return
  read -ra words <<<"${line% /mnt}"
  mount_ "${words[@]:1}" $M && grep " $M nfs .*proto=rdma" /proc/mounts && echo x >$M/from-linux && [ "$(cat $M/from-linux)" = x ]
}
check "the command that doctor prints mounts" printed
check "umount" umount $M
finish
