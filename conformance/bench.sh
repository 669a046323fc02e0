#!/usr/bin/env bash
# bench.sh: rounds of the benchmarks in conformance/internal/bench, which are best run on a quiet machine.
#
#   bench.sh figures        measure all that docs/figures.json has, and make the tables of README.md and
#                           docs/performance.md (Debian, root, for the rows of NFS)
#   bench.sh check [REV]    an old revision and this tree in turn, old, new, old again; exits 1 if a row is slower than
#                           the old one, significantly, and by more than the old one against itself.
#                           REV: where this branch left origin/main, or the commit before
#
# ROUNDS (9), TIME of a benchmark (300ms), ONLY, as in go test -bench, AT, a directory on the file system to measure.
# A revision without these benchmarks is measured with those of this tree.
set -euo pipefail
cd "$(dirname "$0")/.."
ROUNDS=${ROUNDS:-9} TIME=${TIME:-300ms} AT=${AT:-${TMPDIR:-/tmp}} bench=conformance/internal/bench
tmp=$(mktemp -d)
trap 'git worktree remove --force "$tmp/tree" 2>/dev/null || true; rm -rf "$tmp"' EXIT

run() { # run BINARY BENCHMARKS
  "$1" -test.run '^$' -test.bench "$2" -test.benchtime "$TIME" -at "$AT"
}

figures() {
  go test -c -o "$tmp/new" ./$bench
  for i in $(seq "$ROUNDS"); do
    echo "round $i of $ROUNDS" >&2
    run "$tmp/new" "${ONLY:-Engine|RPC|Commit}" >>"$tmp/out"
  done
  [ -n "${ONLY:-}" ] || ROUNDS=$ROUNDS TIME=$TIME bash conformance/bench-nfs.sh >>"$tmp/out"
  go test -count=1 ./conformance -run 'TestFigures$' -measured "$tmp/out"
}

check() {
  local old=${1:-} i v
  if [ -z "$old" ]; then
    old=$(git merge-base origin/main HEAD)
    if [ "$old" = "$(git rev-parse HEAD)" ] && git diff --quiet HEAD; then old=HEAD~1; fi
  fi
  git worktree add -q --detach "$tmp/tree" "$old"
  ls "$tmp/tree/$bench"/*_linux_test.go >/dev/null 2>&1 || { rm -rf "${tmp:?}/tree/$bench"; cp -r $bench "$tmp/tree/$bench"; }
  (cd "$tmp/tree" && go test -c -o "$tmp/old" ./$bench)
  go test -c -o "$tmp/new" ./$bench
  for i in $(seq "$ROUNDS"); do
    for v in old new again; do
      echo "round $i of $ROUNDS: $v" >&2
      run "$tmp/${v/again/old}" "${ONLY:-././^(stag|RDMA|TCP)\$}" >>"$tmp/$v.txt"
    done
  done
  go run golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da -alpha 0.01 -format csv \
    old="$tmp/old.txt" new="$tmp/new.txt" again="$tmp/again.txt" >"$tmp/stat.csv"
  # A row is its name, in quotes if that has commas; old and its spread, new and its spread, the difference or ~, P; again.
  # All that is judged are times or sizes: less is better. Of 6 rounds or more a difference can be significant.
  awk -F, '
    /^,(sec\/op|KiB\/conn|p99-sec),/ { unit = $2; judged = 1; next }
    /^,/ { judged = 0; next }
    judged && !/^geomean/ && NF > 8 {
      name = $1
      if (match($0, /^"[^"]*"/)) { name = substr($0, 2, RLENGTH - 2); $0 = "-" substr($0, RLENGTH + 1) }
      self = 100 * ($8 / $2 - 1); if (self < 0) self = -self
      loss = $6 == "~" ? 0 : $6 + 0 # "+12.34%"
      verdict = "ok"; if (loss > self) { verdict = "WORSE"; bad = 1 }
      printf "%-6s %-80s %-9s %+7.1f%%, to itself %.1f%%\n", verdict, name, unit, 100 * ($4 / $2 - 1), self
    }
    END { exit bad }' "$tmp/stat.csv"
}

case ${1:-} in
figures) figures ;;
check) check "${2:-}" ;;
*) sed -n '2,13s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
