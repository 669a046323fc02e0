package commitlog_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// onDisk mounts a new file system that lies in a file, in which a test can change what the disk holds.
func onDisk(t *testing.T) (image, dir string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can mount a loop device")
	}
	image, dir = filepath.Join(t.TempDir(), "disk"), t.TempDir()
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 32<<20)); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][]string{{"mkfs.ext4", "-q", image}, {"mount", "-o", "loop", image, dir}} {
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			t.Skipf("%v: %v: %s", c, err, out)
		}
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	return image, dir
}

// verified reports the end of a Verify.
type verified chan error

func (v verified) Complete(err error) { v <- err }

// A scrub by Verify: a client that knows its records asks now and then whether the medium still has them. One bit that
// changes on the disk is found, although the memory of the server, and with it every other read, has the right one.
func TestScrub(t *testing.T) {
	image, dir := onDisk(t)
	path := filepath.Join(dir, "log")
	if err := pmem.Create(path, 20480+(64<<10), nil); err != nil {
		t.Fatal(err)
	}
	mem, err := pmem.Open(pmem.File, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mem.Close() })
	l := newTestLog(t, mem, commitlog.WAL)
	p := newTestProducer(t, nil)
	c, s := connect(t, p, pipes, nil)
	a, err := l.Advertise(t.Context(), s)
	if err == nil {
		err = p.Open(c, a)
	}
	if err != nil {
		t.Fatal(err)
	}
	if a.Hash != commitlog.CRC32C {
		t.Skip("this file system cannot be read back past its cache")
	}
	mark := []byte("a record that is on the disk once")
	for i := range 40 {
		payload := bytes.Repeat([]byte{byte(i)}, 1000)
		if i == 1 {
			payload = append(payload, mark...)
		}
		if _, err := p.Append(t.Context(), payload); err != nil {
			t.Fatal(err)
		}
	}
	end := int(p.Place().Position)
	ring := mem.Bytes()[20480:]
	// scrub asks for 4 KiB at a time what the records up to end should be, and returns the first place that differs.
	scrub := func() (at int, err error) {
		for at = 0; at < end; at += 4096 {
			n := min(4096, end-at)
			sum := binary.BigEndian.AppendUint32(nil, crc32.Checksum(ring[at:at+n], crc32.MakeTable(crc32.Castagnoli)))
			done := make(verified, 1)
			err := c.Post([]verbs.WR{{
				Op: verbs.OpVerifyRequest, STag: region.STag(a.RingSTag), TO: uint64(at), Len: uint32(n), Body: sum, Done: done,
			}})
			if err != nil {
				return at, err
			}
			select {
			case err := <-done:
				if err != nil {
					return at, err
				}
			case <-time.After(time.Minute):
				t.Fatal("no answer")
			}
		}
		return at, nil
	}
	if at, err := scrub(); err != nil {
		t.Fatalf("good octets at %d: %v", at, err)
	}

	b, err := os.ReadFile(image)
	if err != nil {
		t.Fatal(err)
	}
	on := bytes.Index(b, mark)
	if on < 0 || bytes.Contains(b[on+1:], mark) {
		t.Fatal("the mark is not on the disk once:", on)
	}
	f, err := os.OpenFile(image, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte{mark[0] ^ 1}, int64(on)); err != nil {
		t.Fatal(err)
	}
	at, err := scrub()
	if want := bytes.Index(ring, mark) / 4096 * 4096; err == nil || at != want {
		t.Errorf("the flipped bit was found at %d (%v), want %d", at, err, want)
	}
	if recs, err := l.Read(t.Context(), 2, 0); err != nil || !bytes.HasSuffix(recs[0].Payload, mark) {
		t.Errorf("what the server has in memory is good: %v", err)
	}
}
