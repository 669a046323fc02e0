#!/usr/bin/env bash
# Builds the interop guest into $STAG_LINUX_CACHE: Debian's own kernel, the
# kernel's software iWARP (siw) compiled from Debian's own linux-source
# package, and a small Debian userland with the kernel NFS/RDMA client and
# server.
#
# usage: build.sh [all|image]
#   all    everything that is missing or out of date (default); about a minute cold
#   image  only repack after editing guest/
#
# STAG_LINUX_KERNEL=6.12 takes that kernel, as bookworm-security has it, and siw of its source; the default is 6.1.
#
# Needs Debian 12, root, the Debian mirror the machine is set up for, and about
# 1.5 GB of disk. No Debian kernel enables siw (checked 6.1 and 6.12), hence the
# out-of-tree build. Three modules: Debian's code as it is (the default of the tests),
# with parameters, and with parameters and one fix, see build_siw.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/cache.sh"
stage=${1:-all}
export DEBIAN_FRONTEND=noninteractive LC_ALL=C

# The stamp names every input; a cache built from other inputs is rebuilt.
stamp=$(cat "$here/build.sh" "$here/cache.sh" "$here"/guest/* | sha256sum | cut -c1-16)
mkdir -p "$cache"
cd "$cache"
exec 9>lock && flock 9 # two at a time would take each other's files away
if [ "$stage" = all ] && [ "$(cat stamp 2>/dev/null)" = "$stamp" ]; then
  command -v qemu-system-x86_64 >/dev/null && command -v tshark >/dev/null && exit 0
fi
[ "$(id -u)" = 0 ] || { echo "build.sh: must run as root (it installs packages and builds a root file system)" >&2; exit 2; }
rm -f stamp

# The headers of 6.12 depend on its image, which is of no use here: they are unpacked, not installed.
install_tools() {
  apt-get update -qq
  headers=()
  if [ "$kernel" = 6.1 ]; then
    kpkg=$(apt-cache depends linux-image-amd64 | awk '/Depends: linux-image/{print $2; exit}')
    kver=${kpkg#linux-image-}
    set -- "linux-headers-$kver"
  else
    kpkg=$(apt-cache search --names-only "^linux-image-${kernel/./\\.}\\..*\\+deb12-amd64\$" | cut -d' ' -f1 | sort -V | tail -1)
    kver=${kpkg#linux-image-}
    headers=("linux-headers-$kver" "linux-headers-${kver%-amd64}-common" "linux-kbuild-${kver%-amd64}")
    set -- zstd libelf1 pahole
  fi
  [ -n "$kver" ] || { echo "build.sh: the mirror has no Linux $kernel" >&2; exit 1; }
  apt-get install -y -qq --no-install-recommends qemu-system-x86 tshark mmdebstrap \
    erofs-utils cpio xz-utils kmod busybox-static python3 gcc make libc6-dev "$@" >/dev/null
  echo "$kver" >kver
}

fetch_kernel() {
  local p
  mkdir -p debs
  (cd debs && for p in "$kpkg" "linux-source-$kernel" "${headers[@]+"${headers[@]}"}"; do
    ls "${p}"_*.deb >/dev/null 2>&1 || apt-get download -qq "$p" 2>/dev/null
  done)
  rm -rf kx kh && mkdir kx kh && dpkg-deb -x debs/"${kpkg}"_*.deb kx
  for p in "${headers[@]+"${headers[@]}"}"; do dpkg-deb -x debs/"${p}"_*.deb kh; done
  khead=/usr/src/linux-headers-$kver
  [ ${#headers[@]} = 0 ] || { khead=$PWD/kh$khead && sed -i "s|/usr/src|$PWD/kh&|" "$khead/Makefile"; }
  find kx/lib/modules -name '*.ko.xz' -print0 | xargs -0r -P"$(nproc)" -n50 xz -d
  # Booted uncompressed through the PVH ELF note: unpacking under software emulation would cost seconds at
  # every boot. The boot protocol says where the payload is: setup_sects, payload_offset, payload_length.
  python3 - "kx/boot/vmlinuz-$kver" >payload <<'PY'
import sys
image = open(sys.argv[1], 'rb').read()
word = lambda at: int.from_bytes(image[at:at + 4], 'little')
at = (image[0x1f1] + 1) * 512 + word(0x248)
sys.stdout.buffer.write(image[at:at + word(0x24c) - 4])
PY
  if [ "$kernel" = 6.1 ]; then xz -dc; else zstd -qdc; fi <payload >vmlinux
  rm payload
}

# build_siw DIR [sed script]: the out-of-tree module in DIR.
build_siw() {
  rm -rf "$1" && cp -r siw-src "$1" && rm "$1/Makefile"
  {
    echo 'obj-m += siw.o'
    echo 'siw-y := siw_cm.o siw_cq.o siw_main.o siw_mem.o siw_qp.o siw_qp_tx.o siw_qp_rx.o siw_verbs.o'
  } >"$1/Kbuild"
  if [ "$1" = siw-mended ]; then
    # Without the one fault that a test with CRC cannot pass except by luck when
    # something between the hosts cuts TCP segments anew, as QEMU's user network
    # does: siw_get_trailer copies a pad and CRC that arrive in two segments to
    # the same place twice.
    grep -q 'skb_copy_bits(skb, srx->skb_offset, tbuf, avail);' "$1/siw_qp_rx.c"
    sed -i 's/skb_copy_bits(skb, srx->skb_offset, tbuf, avail);/skb_copy_bits(skb, srx->skb_offset, tbuf + srx->pad + MPA_CRC_SIZE - srx->fpdu_part_rem, avail);/' "$1/siw_qp_rx.c"
  fi
  if [ "$1" != siw-stock ]; then
    # Compile-time constants turned into module parameters.
    sed -i -E 's/^(static )?const bool (zcopy_tx|try_gso|loopback_enabled|mpa_crc_required|mpa_crc_strict|siw_tcp_nagle|peer_to_peer|relaxed_ird_negotiation)( = true)?;/\1bool \2\3;\nmodule_param(\2, bool, 0644);/' "$1/siw_main.c" "$1/siw_cm.c"
    sed -i -E 's/^extern const bool/extern bool/' "$1/siw.h"
  fi
  make -s -C "$khead" M="$PWD/$1" modules -j"$(nproc)" 2>&1 | grep -v BTF || true
  test -f "$1/siw.ko"
}

build_modules() {
  if [ ! -d siw-src ]; then
    dpkg-deb --fsys-tarfile "debs/linux-source-$kernel"_*.deb | tar -xO "./usr/src/linux-source-$kernel.tar.xz" |
      xz -dc -T0 | tar -x --strip-components=1 --wildcards "linux-source-$kernel/drivers/infiniband/sw/siw/*"
    mv drivers/infiniband/sw/siw siw-src
    rm -rf drivers
  fi
  build_siw siw-stock
  build_siw siw-param
  build_siw siw-mended
}

build_root() {
  rm -rf root
  mmdebstrap --quiet --variant=essential --aptopt='Acquire::Languages "none"' \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' \
    --include=rdma-core,ibverbs-providers,rdmacm-utils,perftest,iproute2,nfs-common,nfs-kernel-server,busybox-static,kmod,rpcbind,python3-minimal,iputils-ping,mount,fio \
    bookworm root "$(ls /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null | head -1)"
}

# Only the modules the guest needs, with their dependencies.
install_modules() {
  local md=root/lib/modules/$kver d base
  rm -rf root/usr/lib/modules && mkdir -p "root/usr/lib/modules/$kver"
  cp kx/lib/modules/"$kver"/modules.{builtin,builtin.modinfo,order} "$md/"
  for d in infiniband net/sunrpc fs/nfs fs/nfsd fs/nfs_common fs/lockd fs/9p net/9p fs/overlayfs fs/erofs \
    drivers/virtio drivers/block/virtio_blk.ko drivers/net/virtio_net.ko drivers/net/net_failover.ko \
    net/core/failover.ko crypto lib fs/fscache fs/netfs arch/x86/crypto fs/ext4 fs/jbd2 fs/mbcache.ko \
    drivers/char/hw_random drivers/char/virtio_console.ko fs/configfs net/ipv6 net/dns_resolver fs/exportfs fs/nls; do
    for base in kernel kernel/drivers; do
      [ -e "kx/lib/modules/$kver/$base/$d" ] || continue
      mkdir -p "$md/$base/$(dirname "$d")"
      cp -r "kx/lib/modules/$kver/$base/$d" "$md/$base/$(dirname "$d")/"
    done
  done
  rm -rf "$md/kernel/drivers/infiniband/hw" "$md/kernel/drivers/infiniband/ulp"
  mkdir -p "$md/updates" root/stag/siw-{param,mended}
  cp siw-stock/siw.ko "$md/updates/siw.ko"
  cp siw-param/siw.ko root/stag/siw-param/siw.ko
  cp siw-mended/siw.ko root/stag/siw-mended/siw.ko
  depmod -b root "$kver"
}

pack() {
  install -m755 "$here/guest/init" root/stag/init
  install -m644 "$here/guest/lib.sh" root/stag/lib.sh
  mkdir -p root/mnt/{share,nfs,a,b} root/export
  printf '127.0.0.1 localhost\n10.0.2.2 host\n10.0.2.15 guest\n' >root/etc/hosts
  echo guest >root/etc/hostname
  rm -f root.erofs && mkfs.erofs -x1 root.erofs root >/dev/null
  # initramfs: busybox and the few modules needed to reach the root image.
  rm -rf ird && mkdir -p ird/{bin,m,proc,sys,dev,new,low,rw}
  cp /bin/busybox ird/bin/busybox
  local m f
  for m in virtio virtio_ring virtio_mmio virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci virtio_blk erofs overlay crc32c_generic libcrc32c; do
    f=$(find kx/lib/modules/"$kver" -name "$m.ko" | head -1)
    [ -z "$f" ] || cp "$f" ird/m/
  done
  install -m755 "$here/guest/initramfs-init" ird/init
  (cd ird && find . | cpio -o -H newc --quiet) >initrd.cpio
}

if [ "$stage" = all ]; then
  install_tools
  fetch_kernel
  build_modules
  build_root
  install_modules
else
  kver=$(cat kver)
fi
pack
echo "$stamp" >stamp
ls -la vmlinux initrd.cpio root.erofs
