#!/usr/bin/env bash
# Builds dist/: static binaries, their archives with manual pages and guide, Debian packages, a list of the modules in each
# (CycloneDX) and checksums (make release, or make release VERSION=v0.1.0). The same commit gives the same octets.
set -euo pipefail
cd "$(dirname "$0")/.."
SBOM=github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.9.0
NFPM=github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.4
export CGO_ENABLED=0 SOURCE_DATE_EPOCH
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
ldflags='-s -w'
[ -z "${VERSION-}" ] || ldflags="$ldflags -X github.com/stag-rdma/stag/internal/cliout.release=v${VERSION#v}"
# A version that sorts before every release, as long as there is none.
VERSION=${VERSION:-$(git describe --tags --exact-match 2>/dev/null || echo "0.0.0~git$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d.%H%M).$(git rev-parse --short=8 HEAD)")}
VERSION=${VERSION#v}
rm -rf dist
mkdir -p dist/build/completion
go test -count=1 -run "^TestMan$" ./nfsdemo/cli -man "$PWD/dist/build/man"
gzip -n9 dist/build/man/*.[15]
for shell in bash zsh fish; do
  go run ./nfsdemo completion $shell >dist/build/completion/$shell
done
build() { # build OS ARCH
  local at=dist/build/$1_$2 name=nfsdemo_${VERSION//\~/-}_$1_$2
  mkdir -p "$at/man"
  GOOS=$1 GOARCH=$2 go build -trimpath -ldflags "$ldflags" -o "$at/" ./nfsdemo ./conformance
  cp LICENSE docs/{admin,secure,security}.md docs/{alerts.yaml,grafana-dashboard.json} "$at/"
  cp dist/build/man/* "$at/man/"
  chmod -R u=rwX,go=rX "$at"
  tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C "$at" -cf - . | gzip -n9 >"dist/$name.tar.gz"
  go run "$SBOM" bin -json -noserial -output "dist/$name.cdx.json" "$at/nfsdemo" 2>/dev/null
  sed -i "s/\"timestamp\": \".*\"/\"timestamp\": \"$(date -u -d "@$SOURCE_DATE_EPOCH" +%FT%TZ)\"/" "dist/$name.cdx.json"
}
for target in "linux amd64" "linux arm64" "darwin amd64" "darwin arm64"; do
  build $target # two words
done
for ARCH in amd64 arm64; do
  export ARCH VERSION
  mkdir -p dist/build/deb
  cp "dist/build/linux_$ARCH/nfsdemo" dist/build/deb/
  go run "$NFPM" package --config packaging/nfpm.yaml --packager deb --target dist/ >/dev/null
done
(cd dist && sha256sum -- *.tar.gz *.deb *.json >SHA256SUMS && cat SHA256SUMS)
