package bench_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/cli"
)

// BenchmarkFiles copies a directory of small files, all of it durable when a copy ends: over NFS, and as people do on one
// machine. -at chooses the disk.
func BenchmarkFiles(b *testing.B) {
	p := thePeer(b)
	from, size := filepath.Join(p.Dir, "files"), 4<<10
	check(b, os.MkdirAll(from, 0o700))
	for i := range 1000 {
		check(b, os.WriteFile(filepath.Join(from, fmt.Sprint(i)), bytes.Repeat([]byte{byte(i)}, size), 0o600))
	}
	cp := func(url string) func(to string) error {
		return func(to string) error {
			var stderr strings.Builder
			if cli.Main([]string{"cp", "-r", from, url + exportPath + "/" + to}, nil, io.Discard, &stderr) != 0 {
				return errors.New(stderr.String())
			}
			return nil
		}
	}
	for _, way := range []struct {
		name string
		copy func(to string) error
	}{
		{"cp over RDMA", cp("nfs+rdma://" + p.Addr["nfs"])},
		{"cp over TCP", cp("nfs://" + p.Addr["nfs-tcp"])},
		{"rsync", func(to string) error {
			return exec.Command("rsync", "-r", "--fsync", from+"/", filepath.Join(p.Dir, "export", to)).Run()
		}},
	} {
		b.Run(way.name, func(b *testing.B) {
			if _, err := exec.LookPath("rsync"); way.name == "rsync" && err != nil {
				b.Skip(err)
			}
			to := filepath.Join(p.Dir, "export", "copy")
			for range b.N {
				check(b, way.copy("copy"))
				b.StopTimer()
				made, err := filepath.Glob(filepath.Join(to, "*"))
				if check(b, err); len(made) != 1000 {
					b.Fatal(len(made), " files")
				}
				check(b, os.RemoveAll(to))
				b.StartTimer()
			}
		})
	}
}
