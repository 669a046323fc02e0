#!/usr/bin/env bash
# quotes.sh DRAFT: compares the quotations of the judge's rules with the documents: the RFCs of Debian's doc-rfc
# packages (non-free, downloaded and not installed), and DRAFT, the text of draft-talpey-rdma-commit-01.
set -euo pipefail
draft=$(realpath "${1:?usage: quotes.sh DRAFT, the text of draft-talpey-rdma-commit-01}")
cd "$(dirname "$0")/.."
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir -p "$tmp"/{lists/partial,cache/archives/partial,texts}
from=$(apt-get indextargets --format '$(REPO_URI)' 'Release: bookworm' 'Component: main' | head -n 1) # where this system has its packages from
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${from:?no bookworm among the sources of apt: run apt-get update} bookworm non-free" >"$tmp/list"
apt=(apt-get -qq -o Dir::Etc::sourcelist="$tmp/list" -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$tmp/lists"
  -o Dir::Cache="$tmp/cache" -o APT::Sandbox::User=root)
"${apt[@]}" update
(cd "$tmp" && "${apt[@]}" download doc-rfc-std-proposed doc-rfc-std doc-rfc-informational doc-rfc-old-std)
for deb in "$tmp"/*.deb; do
  dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$tmp/texts" --exclude='*/links/*' --wildcards --transform='s|.*/||' '*.txt.gz'
done
find "$tmp/texts" -name '*.gz' -exec gunzip {} +
cp "$draft" "$tmp/texts/draft-talpey-rdma-commit-01.txt"
STAG_RFC=$tmp/texts go test -count=1 -tags rfc -run 'Quotes' ./conformance/internal/judge
