#!/usr/bin/env bash
# run.sh [options] SCRIPT [ARGS]: boots the guest, runs SCRIPT (bash, with the
# helpers of guest/lib.sh and check.sh) in it, streams its output and exits with its status.
#   -t SEC   time limit (default 120; exit 124 when it is hit)
#   -d DIR   directory shared read/write with the guest at /mnt/share
#   -f H:G   forward host 127.0.0.1:H to guest port G (repeatable)
#   -w FILE  pcap of everything on the guest's network card, written by QEMU
#   -m MB    memory (default 1024)      -c N  processors (default 2)
#   -e K=V   environment of the script (repeatable)
#   -r DIR   boots DIR/root.ext4 with DIR/initrd instead; its init has to do what guest/init does
#   -X ARGS  further arguments of QEMU, split at blanks
#   -V       show kernel messages
# The host's 127.0.0.1:PORT is 10.0.2.2:PORT in the guest. Nothing else is
# reachable. Every boot starts from a clean root.
set -u
here=$(cd "$(dirname "$0")" && pwd)
. "$here/cache.sh"
limit=120 share= mem=1024 cpus=2 verbose= fwd= dump= envs=() more=() own=
while getopts t:d:f:w:m:c:Ve:r:X: o; do
  case $o in
  t) limit=$OPTARG ;; d) share=$OPTARG ;; w) dump=$OPTARG ;; m) mem=$OPTARG ;; c) cpus=$OPTARG ;;
  f) fwd+=",hostfwd=tcp:127.0.0.1:${OPTARG%%:*}-:${OPTARG##*:}" ;;
  r) own=$OPTARG ;;
  X) read -ra more <<<"$OPTARG" ;;
  V) verbose=1 ;; e) envs+=("$OPTARG") ;; *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
script=${1:?usage: run.sh [options] SCRIPT [ARGS]}
shift
[ -s "$cache/root.erofs" ] || { echo "run.sh: no guest in $cache: run build.sh first" >&2; exit 2; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
[ -n "$share" ] || share=$tmp/share
mkdir -p "$share"
rm -f "$share/.status"
{
  for e in "${envs[@]+"${envs[@]}"}"; do printf 'export %s=%q\n' "${e%%=*}" "${e#*=}"; done
  printf 'set --'
  printf ' %q' "$@"
  echo
  cat "$here/check.sh" "$script"
} >"$share/.script"
log="quiet loglevel=1"
[ -z "$verbose" ] || log="loglevel=7"

initrd=$cache/initrd.cpio root=file=$cache/root.erofs,readonly=on
[ -z "$own" ] || { initrd=$own/initrd root=file=$own/root.ext4,snapshot=on log+=" root=/dev/vda rw"; }

# Software emulation by default: most machines that run this are guests
# themselves. STAG_LINUX_ACCEL=kvm where there is a real one. Emulation of QEMU 7.2 errs: a SETcc whose store is the first
# to touch a page, behind a TEST, takes flags of an earlier instruction (TEST SI, SI; SETLE (AX): 500 of 500 pages).
args=(-accel "${STAG_LINUX_ACCEL:-tcg,thread=multi,tb-size=512}" -cpu max -M pc
  -nodefaults -no-user-config -display none -no-reboot -smp "$cpus" -m "$mem" -serial stdio -monitor none
  -kernel "$cache/vmlinux" -initrd "$initrd" -drive "if=none,id=root,$root,format=raw" -device virtio-blk-pci,drive=root
  -fsdev "local,id=share,path=$share,security_model=none,multidevs=remap" -device virtio-9p-pci,fsdev=share,mount_tag=share
  -device virtio-rng-pci
  -netdev "user,id=n0,ipv6=off$fwd" -device virtio-net-pci,netdev=n0,mac=52:54:00:12:34:56)
args+=("${more[@]+"${more[@]}"}")
[ -z "$dump" ] || args+=(-object "filter-dump,id=d0,netdev=n0,file=$dump,maxlen=262144")
append="console=ttyS0 reboot=t panic=-1 net.ifnames=0 mitigations=off tsc=unstable nowatchdog audit=0 selinux=0
 apparmor=0 cryptomgr.notests random.trust_cpu=on no_timer_check stag.slirp $log"

timeout --foreground -k 5 "$limit" qemu-system-x86_64 "${args[@]}" -append "${append//$'\n'/}" </dev/null | sed -u 's|\r||g' # a line at a time
rc=${PIPESTATUS[0]}
[ -s "$share/.status" ] && exit "$(cat "$share/.status")"
[ "$rc" = 124 ] && { echo "run.sh: time limit of ${limit} s" >&2; exit 124; }
echo "run.sh: the guest ended without a status (qemu $rc)" >&2
exit 125
