#!/usr/bin/env bash
# Builds dist/: static binaries, their archives, Debian packages and checksums (make release).
set -euo pipefail
cd "$(dirname "$0")/.."
NFPM=github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.4
export CGO_ENABLED=0 SOURCE_DATE_EPOCH
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
# A version that sorts before every release, as long as there is none.
VERSION=${VERSION:-$(git describe --tags --exact-match 2>/dev/null || echo "0.0.0~git$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d.%H%M).$(git rev-parse --short=8 HEAD)")}
VERSION=${VERSION#v}
rm -rf dist
mkdir -p dist/build/completion
build() { # build OS ARCH
  GOOS=$1 GOARCH=$2 go build -trimpath -ldflags '-s -w' -o "dist/build/$1_$2/nfsdemo" ./nfsdemo
  tar --sort=name --owner=0 --group=0 --mtime="@$SOURCE_DATE_EPOCH" -C "dist/build/$1_$2" -cf - nfsdemo |
    gzip -n9 >"dist/nfsdemo_${VERSION//\~/-}_$1_$2.tar.gz"
}
for target in "linux amd64" "linux arm64" "darwin amd64" "darwin arm64"; do
  build $target # two words
done
go test -count=1 -run "^TestMan$" ./nfsdemo/cli -man "$PWD/dist/build/man"
gzip -n9 dist/build/man/*.1
for shell in bash zsh fish; do
  go run ./nfsdemo completion $shell >dist/build/completion/$shell
done
for ARCH in amd64 arm64; do
  export ARCH VERSION
  mkdir -p dist/build/deb
  cp "dist/build/linux_$ARCH/nfsdemo" dist/build/deb/
  go run "$NFPM" package --config packaging/nfpm.yaml --packager deb --target dist/ >/dev/null
done
(cd dist && sha256sum -- *.tar.gz *.deb >SHA256SUMS && cat SHA256SUMS)
