# systemd.sh puts this before its guest scripts. What the administrator types and reads is in transcript, on the share.
share=$PWD
export SYSTEMD_PAGER='' SYSTEMD_COLORS=0 DEBIAN_FRONTEND=noninteractive
flags=/etc/default/nfsdemo config=/etc/nfsdemo.toml

# run COMMAND: with its output in the transcript
run() {
  echo "# $1" >>"$share/transcript"
  eval "$1" 2>&1 | tee -a "$share/transcript"
  return "${PIPESTATUS[0]}"
}
# guide COMMAND: run a line of the guide, as it stands there
guide() {
  grep -qxF -- "$1" "$share/admin.md" || { echo "the guide does not say: $1"; return 1; }
  echo "$1" >>/tmp/commands
  run "$1"
}
# fenced LINE: the block of the guide that has a line that begins so
fenced() {
  awk -v want="$1" '/^```/ { if (hit) exit; text = ""; next } { text = text $0 "\n"; hit = hit || index($0, want) == 1 } END { printf "%s", text; exit !hit }' "$share/admin.md"
}
# says TEXT COMMAND: runs it, whatever its status, and looks for TEXT in its output
says() { run "$2" | grep -F -- "$1" >/dev/null || { run "$2" | tail -8; return 1; }; }
# until_ COMMAND...: for a minute
until_() { for _ in $(seq 120); do "$@" >/dev/null 2>&1 && return; sleep 0.5; done; "$@"; }
# journal PATTERN: the server has written it since the last mark
mark() { journalctl -q -n 1 --show-cursor | sed -n 's/^-- cursor: //p' >/tmp/cursor; }
journal() { until_ written "$1" || { written '' | tail -5; return 1; }; }
# With -u, journalctl of systemd 252 leaves out the first line after the cursor.
written() { journalctl --after-cursor "$(cat /tmp/cursor)" | grep ' nfsdemo\[' | grep -F -- "$1"; }
user() { runuser -u user -- "$@"; }
metric() { curl -sf http://127.0.0.1:9049/metrics | grep "^$1" | awk '{ n += $NF } END { exit !(n > 0) }'; }
