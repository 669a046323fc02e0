#!/usr/bin/env bash
# mutants.sh [PATTERN]: puts the faults of conformance/mutants, or those whose names match PATTERN, one after the other
# into a copy of this tree. Exits 1 unless each one applies, each of its tests notices, and these pass without a fault.
# What a fault is, and which rule it breaks, stands above its diff; there too
#   Test: PACKAGE TEST [SUBTEST...]     must fail, each of them (a Long: line only if LONG is set)
set -u
cd "$(dirname "$0")/.." || exit
faults=$(ls conformance/mutants/*.diff | grep -E -- "${1:-.}") || { echo "no fault is called $1"; exit 1; }
copy=$(mktemp -d) bin=$(mktemp -d) bad=0
trap 'rm -rf "$copy" "$bin"' EXIT
git ls-files -z -co --exclude-standard | tar -c --null -T - --ignore-failed-read 2>/dev/null | tar -x -C "$copy"
git init -q "$copy"       # so that git apply takes no repository around it for the root
export GOFLAGS=-trimpath  # what the fault does not touch is in the cache

tests() { sed -n '/^---/q; s/^Test: //p; '"${LONG:+s/^Long: //p}" "$@" | sort -u; }

# build PACKAGE: its tests, once for each fault. One process for each test, since a fault may end it.
build() { [ -e "$bin/${1//[.\/]/_}" ] || (cd "$copy" && go test -c -vet=off -o "$bin/${1//[.\/]/_}" "$1" 2>&1); }
run() { # PACKAGE PATTERN
  (cd "$copy/$1" && "$bin/${1//[.\/]/_}" -test.count=1 -test.timeout "${LONG:+10}180s" -test.run "$2" 2>&1)
}

# A pattern names all that a package has to pass.
for p in $(for f in $faults; do tests "$f"; done | cut -d' ' -f1 | sort -u); do
  all=$(for f in $faults; do tests "$f"; done | sed -n "s,^$p \([^ ]*\).*,\1,p" | sort -u | paste -sd'|')
  out=$(build "$p" && run "$p" "^($all)\$") || { tail -20 <<<"$out"; echo "without a fault $p fails"; exit 1; }
done

for f in $faults; do
  name=$(basename "$f" .diff) why='' missed=''
  rm -f "$bin"/*
  (cd "$copy" && git apply "$OLDPWD/$f") || { echo "BROKEN      $name does not apply: carry it to where its code is now"; bad=1; continue; }
  while read -r p test subs; do
    out=$(build "$p") || { echo "BROKEN      $name does not compile:"; head -5 <<<"$out"; bad=1; why=-; break; }
    out=$(run "$p" "^$test\$${subs:+/^(${subs// /|})\$}")
    grep -q '^panic: test timed out' <<<"$out" && missed="$missed (timed out)"
    for t in ${subs:-.}; do
      [ "$t" = . ] && t=$test || t=$test/$t
      grep -qE -- "^ *--- FAIL: $t( |\$)" <<<"$out" || missed="$missed $p.$t"
    done
    [ -n "$why" ] || why=$(grep -m1 -oE '\w+_test\.go:[0-9]+: .*' <<<"$out" | cut -c1-90)
  done < <(tests "$f")
  (cd "$copy" && git apply -R "$OLDPWD/$f")
  if [ -n "$missed" ]; then
    echo "NOT CAUGHT  $name:$missed"
    bad=1
  elif [ "$why" != - ]; then
    printf 'caught      %-28s %s\n' "$name" "$why"
  fi
done
exit $bad
