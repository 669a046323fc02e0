#!/usr/bin/env bash
# mutants.sh: puts each fault of internal/mutant into the commit log and runs the crash
# tests. Exits 1 unless every fault makes a test fail, and none fails without.
set -u
cd "$(dirname "$0")"
pkgs="./internal/machine ."
names=$(sed -n 's/^\t[A-Za-z]* *= "\([a-z-]*\)".*/\1/p' internal/mutant/names.go)
mutant=$(go list ./internal/mutant).active
run() { go test -count=1 -tags mutant -ldflags "-X $mutant=$1" -timeout 60s -run TestCrash $pkgs 2>&1; }
run none >/dev/null || { echo "the crash tests fail without any fault"; exit 1; }
bad=0
for name in $names; do
  if out=$(run "$name"); then
    echo "NOT CAUGHT  $name"
    bad=1
  elif grep -qE 'crashtest: |^\s+\w+_test\.go:' <<<"$out"; then
    printf 'caught      %-28s %s\n' "$name" "$(grep -m1 -oE '(recovery fails|acknowledged record|record [0-9]+ ).*' <<<"$out" | cut -c1-90)"
  else
    echo "BROKEN      $name: the tests did not run"
    echo "$out" | head -5
    bad=1
  fi
done
exit $bad
