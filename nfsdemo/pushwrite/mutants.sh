#!/usr/bin/env bash
# mutants.sh: puts each fault of internal/mutant into the server of push-mode writes and runs
# its tests. Exits 1 unless every fault makes a test fail, and none fails without.
set -u
cd "$(dirname "$0")"
names=$(sed -n 's/^\t[A-Za-z]* *= "\([a-z-]*\)".*/\1/p' internal/mutant/names.go)
mutant=$(go list ./internal/mutant).active
run() { go test -count=1 -failfast -tags mutant -ldflags "-X $mutant=$1" -timeout 120s . 2>&1; }
run none >/dev/null || { echo "the tests fail without any fault"; exit 1; }
bad=0
for name in $names; do
  if out=$(run "$name"); then
    echo "NOT CAUGHT  $name"
    bad=1
  elif grep -qE '^\s+\w+_test\.go:' <<<"$out"; then
    printf 'caught      %-22s %s\n' "$name" "$(grep -m1 -oE '\w+_test\.go:.*' <<<"$out" | cut -c1-100)"
  else
    echo "BROKEN      $name: the tests did not run"
    echo "$out" | head -5
    bad=1
  fi
done
exit $bad
