#!/usr/bin/env bash
# mutants.sh: puts faults into the server and runs TestKill. Exits 1 unless every fault makes
# it fail, and none fails without. The faults are some of internal/mutant.
#   ROUNDS (100): within which a fault must show   ONLY: a pattern of names
set -u
cd "$(dirname "$0")"
rounds=${ROUNDS:-100} only=${ONLY:-.}
serve="--push-log DIR/push"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
bad=0
active=$(go list ../../../internal/mutant).active
try() { # serve args, [fault]
  go test -c -o "$tmp/test" -tags mutant ${2:+-ldflags "-X $active=$2"} . || exit 1
  "$tmp/test" -test.run 'TestKill$' -test.timeout 600s -kill.rounds "$rounds" -kill.serve "$1" >"$tmp/out" 2>&1
}
fault() { # name, serve args, [mutant]
  grep -qE "$only" <<<"$1" || return 0
  if try "$2" "${3:+$1}"; then
    echo "NOT CAUGHT  $1"
    bad=1
  elif grep -q 'kill_test.go' "$tmp/out"; then
    printf 'caught      %-22s %s\n' "$1" "$(sed -n 's/^ *kill_test.go:[0-9]*: \(round.*\)/\1/p' "$tmp/out" | head -1 | cut -c1-120)"
  else
    echo "BROKEN      $1: the test did not run"
    head -5 "$tmp/out"
    bad=1
  fi
}
if ! rounds=20 try "$serve"; then
  echo "the test fails without any fault:"
  cat "$tmp/out"
  exit 1
fi
for name in drain-skipped lease-not-recalled lease-not-durable ack-before-flush no-fdatasync-append; do
  fault "$name" "$serve" mutant
done
exit $bad
