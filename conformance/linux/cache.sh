# cache.sh: which kernel the guest has, and where it is: 6.1 in /var/cache/stag-linux, 6.12 in /var/cache/stag-linux-6.12.
kernel=${STAG_LINUX_KERNEL:-6.1}
case $kernel in
6.1) cache=${STAG_LINUX_CACHE:-/var/cache/stag-linux} ;;
6.12) cache=${STAG_LINUX_CACHE:-/var/cache/stag-linux-6.12} ;;
*) echo "STAG_LINUX_KERNEL: 6.1 or 6.12" >&2; exit 2 ;;
esac
