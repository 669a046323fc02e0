# ganesha_start DIR NFSPORT MOUNTPORT: serves DIR/export over NFSv3 and NFSv4 on TCP with
# nfs-ganesha (Debian packages nfs-ganesha, nfs-ganesha-vfs, rpcbind; root). Sets gpid,
# and rpid if it had to start rpcbind, with which ganesha wants to register. Needs wait.sh.
ganesha_start() {
  local dir=$1
  gpid='' rpid=''
  if ! command -v ganesha.nfsd >/dev/null || ! command -v rpcbind >/dev/null; then
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends nfs-ganesha nfs-ganesha-vfs rpcbind >/dev/null || return
  fi
  cat >"$dir/conf" <<CONF
NFS_CORE_PARAM { NFS_Port = $2; MNT_Port = $3; Protocols = 3, 4; Enable_NLM = false; Enable_RQUOTA = false; Bind_addr = 127.0.0.1; }
NFSV4 { Grace_Period = 5; Lease_Lifetime = 30; Minor_Versions = 0, 1; RecoveryRoot = $dir; }
EXPORT { Export_Id = 1; Path = $dir/export; Pseudo = /export; Protocols = 3, 4; Access_Type = RW;
  Squash = No_Root_Squash; SecType = sys; Transports = TCP; FSAL { Name = VFS; } }
CONF
  if ! rpcinfo -p >/dev/null 2>&1; then
    rpcbind -f &
    rpid=$!
    wait_for $rpid rpcinfo -p >/dev/null 2>&1 || return
  fi
  ganesha.nfsd -F -f "$dir/conf" -L "$dir/log" -p "$dir/pid" &
  gpid=$!
  wait_for $gpid grep -qs "NFS SERVER INITIALIZED" "$dir/log"
}
