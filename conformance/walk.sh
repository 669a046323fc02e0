#!/bin/bash
# How many functions one operation enters, in how many files: WRITE and READ of 64 KiB, GETATTR, an append to a commit log.
set -eu
cd "$(dirname "$0")/.."
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
go build -cover -covermode=atomic -coverpkg=./... -o "$tmp/walk" ./conformance/walk.go
mkdir "$tmp/all" "$tmp/counts"
GOCOVERDIR=$tmp/all "$tmp/walk" call "$tmp/counts"
for op in write read getattr append; do
	for side in server client; do go tool covdata func -i="$tmp/counts/$side-$op" >"$tmp/$side-$op"; done
	for side in server client both; do
		both=("$tmp/$side-$op"); [ $side != both ] || both=("$tmp/server-$op" "$tmp/client-$op")
		awk -v what="$op $side" '$NF != "0.0%" && $1 != "total" && !/conformance\/walk/ {
			entered[$1 " " $2]; sub(/:[0-9]+:$/, "", $1); files[$1]
		} END { print what, length(entered), "functions", length(files), "files" }' "${both[@]}"
	done
done
