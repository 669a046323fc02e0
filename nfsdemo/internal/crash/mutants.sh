#!/usr/bin/env bash
# mutants.sh: puts faults into the server and runs TestKill. Exits 1 unless every fault makes
# it fail, and none fails without. The faults are those of the packages below; beside them,
# the server without its journal.
#   ROUNDS (100): within which a fault must show   ONLY: a pattern of names
set -u
cd "$(dirname "$0")"
rounds=${ROUNDS:-100} only=${ONLY:-.}
serve="--intents DIR/intents --push-log DIR/push"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
bad=0
try() { # serve args, [package of the fault, fault]
  go test -c -o "$tmp/test" -tags mutant ${2:+-ldflags "-X $(go list "$2").active=$3"} . || exit 1
  "$tmp/test" -test.run 'TestKill$' -test.timeout 600s -kill.rounds "$rounds" -kill.serve "$1" >"$tmp/out" 2>&1
}
fault() { # name, serve args, [package]
  grep -qE "$only" <<<"$1" || return 0
  if try "$2" "${3:+$3}" "$1"; then
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
if ! ROUNDS=20 try "$serve"; then
  echo "the test fails without any fault:"
  cat "$tmp/out"
  exit 1
fi
fault no-journal none
for name in reply-before-record intent-missing no-settlement; do
  fault "$name" "$serve" ../../once/internal/mutant
done
for name in drain-skipped lease-not-recalled lease-not-durable; do
  fault "$name" "$serve" ../../pushwrite/internal/mutant
done
fault ack-before-flush "$serve" ../../../transport/push/internal/mutant # of push logs; the next is of the journal, too
fault no-fdatasync-append "$serve" ../../../transport/commitlog/internal/mutant
exit $bad
