#!/usr/bin/env bash
# faults.sh PACKAGE [ARGS]: puts each fault of PACKAGE, as internal/mutant lists them, into the code
# and runs go test ARGS in PACKAGE's directory. Prints a line per fault; exits 1 unless every fault makes
# a test fail, and no test fails without a fault.
set -u
cd "$(dirname "$0")/.." || exit
list=internal/mutant/$(basename "$1").go
names=$(sed -n 's/^\t[A-Za-z]* *= "\([a-z-]*\)".*/\1/p' "$list")
active=$(go list ./internal/mutant).active
[ -n "$names" ] || { echo "$list names no fault"; exit 1; }
cd "$1" || exit
shift
run() { go test -count=1 -failfast -timeout 120s -tags mutant -ldflags "-X $active=$1" "${@:2}" 2>&1; }
out=$(run none "$@") || { echo "the tests fail without any fault:"; tail -5 <<<"$out"; exit 1; }
bad=0
for name in $names; do
  if out=$(run "$name" "$@"); then
    echo "NOT CAUGHT  $name"
    bad=1
  elif why=$(grep -m1 -oE '(\w+_test\.go:[0-9]+): .*' <<<"$out"); then
    printf 'caught      %-28s %s\n' "$name" "$(cut -c1-100 <<<"$why")"
  else
    echo "BROKEN      $name: the tests did not run"
    head -5 <<<"$out"
    bad=1
  fi
done
exit $bad
