#!/usr/bin/env bash
# systemd.sh: the administrator's guide (docs/admin.md), followed to the letter in a fresh Debian with systemd and the
# kernel of build.sh: the package of dist/ (make release), configuration, metrics, journal, mounts by the kernel over RDMA
# and TCP, reload, stop, sockets, wrong input, `nfsdemo doctor`, removal. See systemd-guest.sh.
#
# Then the year of an administrator, compressed, in another one: /etc/exports, ACLs, quotas, groups, disks that come late, locks,
# rpcbind, an upgrade under load. See year-guest.sh.
#
# The guests have no network but their own addresses, and apt takes packages from its cache, so that times leave downloads out.
# Prints one line per check; exit 1 on any failure. Debian 12, root.
#
# usage: systemd.sh [root | systemd | year]
#   root  only makes the guests' root file system, if it is missing or out of date
#   systemd, year  only this one
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
bash "$here/build.sh" >/dev/null
. "$here/cache.sh"
kver=$(cat "$cache/kver")
fresh=$cache/systemd

# A minimal Debian, as clouds have it, with an initramfs of three drivers: to unpack hundreds takes a minute under emulation.
# What the guide and the package ask for is downloaded, not installed.
build_root() {
  local tree
  rm -rf "$fresh" && mkdir -p "$fresh/files/etc/systemd/"{system,network}
  cat >"$fresh/files/etc/systemd/system/share.service" <<'UNIT'
[Unit]
Description=Runs the script of the shared directory, and ends the machine
After=multi-user.target
[Service]
Type=exec
ExecStart=/bin/bash -c 'mkdir /run/share && mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=none share /run/share && cd /run/share && (. ./.script); echo $? >/run/share/.status'
ExecStopPost=systemctl poweroff --no-block
Environment=HOME=/root TERM=dumb LC_ALL=C
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
[Install]
WantedBy=multi-user.target
UNIT
  cat >"$fresh/files/etc/systemd/network/eth0.network" <<'NETWORK'
[Match]
Name=eth0
[Network]
Address=192.0.2.5/24
NETWORK
  echo '127.0.0.1 localhost' >"$fresh/files/etc/hosts"
  echo '192.0.2.5 fileserver' >>"$fresh/files/etc/hosts"
  echo fileserver >"$fresh/files/etc/hostname"
  tree=$(mktemp -d)
  mmdebstrap --quiet --variant=minbase --skip=cleanup/apt \
    --aptopt='Acquire::Languages "none"' --aptopt='APT::Get::Assume-Yes "true"' \
    --include="systemd-sysv,dbus,udev,iproute2,curl,kmod,zstd,initramfs-tools,linux-image-$kver" \
    --essential-hook='cd "$1" && mkdir -p etc/initramfs-tools/conf.d usr/share/initramfs-tools/modules.d' \
    --essential-hook='echo MODULES=list >"$1/etc/initramfs-tools/conf.d/modules"' \
    --essential-hook='printf "%s\n" virtio_pci virtio_blk ext4 >"$1/usr/share/initramfs-tools/modules.d/guest"' \
    --customize-hook="sync-in $fresh/files /" \
    --customize-hook='chroot "$1" systemctl -q enable systemd-networkd share.service' \
    --customize-hook='chroot "$1" systemctl -q mask apt-daily.timer apt-daily-upgrade.timer serial-getty@ttyS0.service' \
    --customize-hook='chroot "$1" useradd -u 1000 -m user' \
    --customize-hook='chroot "$1" apt-get clean' \
    --customize-hook='chroot "$1" apt-get install -qq --download-only --install-recommends nfs-common netbase acl quota' \
    --customize-hook="chroot \"\$1\" apt-get install -qq --download-only --no-install-recommends gcc make kmod xz-utils linux-headers-$kver linux-source-$kernel" \
    bookworm "$tree" "$(ls /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null | head -1)" >"$fresh/log"
  cp "$tree/boot/initrd.img-$kver" "$fresh/initrd"
  truncate -s 8G "$fresh/root.ext4"
  mke2fs -q -t ext4 -d "$tree" "$fresh/root.ext4"
  rm -rf "$tree"
}
stamp=$({ declare -f build_root; cat "$cache/stamp"; } | sha256sum)
if [ "$(cat "$fresh/stamp" 2>/dev/null)" != "$stamp" ]; then
  build_root
  echo "$stamp" >"$fresh/stamp"
fi
[ "${1:-}" != root ] || exit 0

deb=$(ls dist/nfsdemo_*_amd64.deb) || { echo "systemd.sh: no package in dist/: make release first" >&2; exit 2; }

work=$(mktemp -d)
trap 'if [ -n "${KEEP:-}" ]; then echo "kept: $work"; else rm -rf "$work"; fi' EXIT
status=0
for guest in ${1:-systemd year}; do
  share=$work/$guest
  mkdir -p "$share/dist"
  cp "$deb" "$share/dist/"
  cp docs/admin.md "$share/"
  cat "$here/systemd-lib.sh" "$here/$guest-guest.sh" >"$work/$guest.sh"
  "$here/run.sh" -t "${LIMIT:-1100}" -d "$share" -m 2048 -r "$fresh" ${VERBOSE:+-V} "$work/$guest.sh" || status=1
done
exit $status
