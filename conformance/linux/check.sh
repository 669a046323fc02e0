# check.sh: run.sh puts this before every guest script. A line of output per check.
passed=0 failed=0
check() { # check NAME COMMAND...: runs it in a subshell, silent when it succeeds
  local name=$1 out rc
  shift
  out=$( ("$@") 2>&1)
  rc=$?
  if [ $rc = 0 ]; then
    passed=$((passed + 1)) && echo "ok $name"
  else
    fail "$name" "exit $rc: $(tail -3 <<<"$out" | cut -c1-200 | tr '\n' ' ')"
  fi
}
fail() { failed=$((failed + 1)) && echo "FAIL $1${2:+: $2}"; }
# mount_ ARGS...: mount, and again if siw could not connect. It binds a port that the RDMA CM draws at
# random, and cannot use one twice for the same far end within a minute (TIME_WAIT).
mount_() {
  local out i
  for i in 1 2 3 4 5; do
    out=$(mount "$@" 2>&1) && return
    grep -q 'Cannot assign requested address' <<<"$out" || break
  done
  echo "$out"
  return 1
}
clean_log() { # clean_log [PATTERN]: the kernel complains of nothing, nor of PATTERN
  ! dmesg | grep -E "BUG:|WARNING:${1:+|$1}" || fail "kernel log"
}
finish() { echo "$passed passed, $failed failed"; exit $((failed > 0)); }
