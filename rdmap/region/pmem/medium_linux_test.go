package pmem_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
	"golang.org/x/sys/unix"
)

func TestMmap(t *testing.T) {
	g := fileTarget(pmem.Mmap)
	g.Sync, g.Mapped = pmem.OpMsync, true
	pmemtest.Run(t, g)
}

// The write-back instructions are real, but only pretend to be enough here.
func TestDAX(t *testing.T) {
	pmem.PretendDAX(t)
	g := fileTarget(pmem.DAX)
	g.Sync, g.Mapped = pmem.OpWriteBack, true
	pmemtest.Run(t, g)
}

// DAX is refused where the promise cannot be proved, with the reason and with advice.
func TestDAXRefused(t *testing.T) {
	m, err := pmem.Open(pmem.DAX, newFile(t, 4096), nil)
	if err == nil {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		t.Skip("the temporary directory is on persistent memory")
	}
	if !errors.Is(err, pmem.ErrRefused) {
		t.Errorf("%v", err)
	}
	if !strings.Contains(err.Error(), "MAP_SYNC") && !strings.Contains(err.Error(), "write-back") {
		t.Errorf("no reason: %v", err)
	}
	if !strings.Contains(err.Error(), "open as file or mmap") {
		t.Errorf("no advice: %v", err)
	}
}

func TestDAXNeedsInstruction(t *testing.T) {
	why := errors.New("no such instruction")
	pmem.PretendNoInstruction(t, why)
	if _, err := pmem.Open(pmem.DAX, newFile(t, 4096), nil); !errors.Is(err, pmem.ErrRefused) || !errors.Is(err, why) {
		t.Error(err)
	}
}

// A hole may become a fault: mappings refuse it, and the kind file fills it.
func TestHoles(t *testing.T) {
	pmem.PretendDAX(t)
	path := t.TempDir() + "/sparse"
	f := must(os.Create(path))(t)
	noErr(t, errors.Join(f.Truncate(1<<20), f.Close()))
	for _, k := range []pmem.Kind{pmem.Mmap, pmem.DAX} {
		if _, err := pmem.Open(k, path, nil); !errors.Is(err, pmem.ErrRefused) || !strings.Contains(err.Error(), "hole") {
			t.Errorf("%v: %v", k, err)
		}
	}
	m := open(t, pmem.File, path, nil)
	if err := errors.Join(m.Persist(0, 1<<20), m.Close()); err != nil {
		t.Error(err)
	}
}

// The write-back itself faults if the file is truncated while it runs.
func TestDAXWriteBackFaults(t *testing.T) {
	pmem.PretendDAX(t)
	path := newFile(t, 1<<16)
	m := open(t, pmem.DAX, path, nil)
	noErr(t, errors.Join(m.Store(0, []byte("x")), m.Persist(0, 1<<16), os.Truncate(path, 0)))
	err := m.Persist(0, 1<<16)
	if err == nil || !strings.Contains(err.Error(), "write back") || !strings.Contains(err.Error(), "fault at octet 0") {
		t.Error(err)
	}
	noErr(t, os.Truncate(path, 1<<16))
	for _, err := range []error{m.Persist(0, 1), m.Err()} {
		if !errors.Is(err, region.ErrRegionLost) {
			t.Errorf("not final: %v", err)
		}
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// A real system call on a mapping that is gone fails with EFAULT.
func TestRealEFAULT(t *testing.T) {
	path := newFile(t, 4096)
	m := open(t, pmem.Mmap, path, nil)
	noErr(t, os.Truncate(path, 0))
	r, w, err := os.Pipe()
	noErr(t, err)
	err = m.Guard(0, 4096, func() error { _, err := w.Write(m.Bytes()); return err })
	if !errors.Is(err, syscall.EFAULT) || !errors.Is(m.Err(), syscall.EFAULT) {
		t.Error(err)
	}
	if err := errors.Join(r.Close(), w.Close(), m.Close()); err != nil {
		t.Error(err)
	}
}

// openDirect returns a memory that is written past the page cache. It skips the test if the file system does not
// support that.
func openDirect(t testing.TB, size int, o pmem.Hook) *pmem.Memory {
	t.Helper()
	m := open(t, pmem.File, newFile(t, size), o)
	t.Cleanup(func() { m.Close() })
	mustBeDirect(t, m)
	return m
}

func mustBeDirect(t testing.TB, m *pmem.Memory) {
	t.Helper()
	switch {
	case !m.TakesDirect():
		t.Skip("this file system does not support direct writes")
	case !m.Direct():
		t.Fatal("the memory is written through the page cache")
	}
}

// The file holds exactly the octets that were persisted, whatever shares a block with them, and whoever opens it.
func TestDirect(t *testing.T) {
	const size = 6 * 4096
	m := openDirect(t, size, nil)
	stored, want := make([]byte, size), make([]byte, size)
	r := rand.New(rand.NewPCG(4, 4))
	some := func() region.Range {
		off := r.IntN(size)
		return region.Range{Off: off, N: r.IntN(min(9000, size-off) + 1)}
	}
	for round := range 200 {
		if round%50 == 49 {
			noErr(t, m.Close())
			m = open(t, pmem.File, m.Path(), nil)
			t.Cleanup(func() { m.Close() })
			mustBeDirect(t, m)
			copy(stored, want)
		}
		at := some()
		p := bytes.Repeat([]byte{byte(round + 1)}, at.N)
		noErr(t, m.Store(at.Off, p))
		copy(stored[at.Off:], p)
		rs := []region.Range{some(), some(), some()}[:1+round%3]
		for _, r := range rs {
			copy(want[r.Off:], stored[r.Off:r.Off+r.N])
		}
		noErr(t, m.PersistRanges(rs))
		if got, err := os.ReadFile(m.Path()); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("round %d, %v: the file differs, %v", round, rs, err)
		}
	}
}

// Neighbours in a block are stored and persisted at the same time; neither disturbs the
// other.
func TestDirectNeighbours(t *testing.T) {
	const each, piece = 30, 100
	m := openDirect(t, 4096, nil)
	var wg sync.WaitGroup
	for k := range 4 {
		wg.Go(func() {
			for i := range each {
				p := bytes.Repeat([]byte{byte(k*each + i + 1)}, piece)
				if err := errors.Join(m.Store(k*piece, p), m.Persist(k*piece, piece)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	want := make([]byte, 4096)
	for k := range 4 {
		copy(want[k*piece:], bytes.Repeat([]byte{byte(k*each + each)}, piece))
	}
	if got, err := os.ReadFile(m.Path()); err != nil || !bytes.Equal(got, want) {
		t.Fatal("the file differs", err)
	}
}

// A memory without whole blocks, or one that needs too large a copy, is written through the page cache.
func TestNotDirect(t *testing.T) {
	openDirect(t, 4096, nil)
	for _, size := range []int{4095, 4096 + 64} {
		m := open(t, pmem.File, newFile(t, size), nil)
		if m.Direct() {
			t.Error(size)
		}
		m.Close()
	}
	big := newFile(t, 1)
	noErr(t, os.Truncate(big, pmem.MaxDirect+4096))
	if m, err := pmem.Open(pmem.File, big, nil); err != nil {
		t.Error(err)
	} else {
		if m.Direct() {
			t.Error("a memory that is too large is written past the page cache")
		}
		m.Close()
	}
}

// A failed direct write is final like any other, and a truncated file is noticed.
func TestDirectFails(t *testing.T) {
	f := pmemtest.NewFaults()
	m := openDirect(t, 8192, f.Hook())
	noErr(t, errors.Join(m.Store(5000, []byte("x")), m.Persist(5000, 1)))
	f.Fail(pmem.OpWrite, syscall.EIO)
	if err := m.Persist(0, 1); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	if err := m.Persist(0, 1); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	cut := openDirect(t, 8192, nil)
	noErr(t, os.Truncate(cut.Path(), 4096))
	if err := cut.Persist(8191, 1); !errors.Is(err, region.ErrRegionLost) {
		t.Error(err)
	}
}

// readBack returns what the medium holds.
func readBack(t testing.TB, m region.Memory, off, n int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := region.ReadBack(m, &b, off, n); err != nil {
		t.Fatalf("%d octets at %d: %v", n, off, err)
	}
	return b.Bytes()
}

// mustReadBack skips the test where the file system of m cannot be read back.
func mustReadBack(t testing.TB, m *pmem.Memory) {
	t.Helper()
	if err := m.Verifiable(); err != nil {
		t.Skip(err)
	}
}

var readBackKinds = map[string]struct {
	kind pmem.Kind
	size int
}{
	"file":                       {pmem.File, 8 * 4096},
	"file, not of whole blocks":  {pmem.File, 8*4096 + 5},
	"file of 3 octets":           {pmem.File, 3},
	"file, of more than a piece": {pmem.File, 3*256<<10 + 1},
	"mmap":                       {pmem.Mmap, 8 * 4096},
	"mmap, not of whole blocks":  {pmem.Mmap, 2*4096 + 77},
}

// TestReadBack: what is read back is what the file holds: not what was stored and not persisted, and also what somebody
// else has written to it.
func TestReadBack(t *testing.T) {
	for name, tt := range readBackKinds {
		t.Run(name, func(t *testing.T) {
			m := open(t, tt.kind, newFile(t, tt.size), nil)
			defer m.Close()
			mustReadBack(t, m)
			want := bytes.Repeat([]byte("0123456789abcdef!"), tt.size/17+1)[:tt.size]
			noErr(t, errors.Join(m.Store(0, want), m.Persist(0, tt.size)))
			if tt.kind == pmem.File { // octets of a mapping may reach the medium at any time
				noErr(t, m.Store(tt.size-1, []byte{'?'}))
			}
			for _, r := range []region.Range{{Off: 0, N: tt.size}, {Off: tt.size - 1, N: 1}, {Off: tt.size / 3, N: tt.size / 2}, {Off: tt.size, N: 0}} {
				if got := readBack(t, m, r.Off, r.N); !bytes.Equal(got, want[r.Off:r.Off+r.N]) {
					t.Errorf("%v: other octets than were persisted", r)
				}
			}
			other := must(os.OpenFile(m.Path(), os.O_WRONLY, 0))(t)
			defer other.Close()
			if _, err := other.WriteAt([]byte("X"), int64(tt.size/2)); err != nil {
				t.Fatal(err)
			}
			if got := readBack(t, m, tt.size/2, 1); got[0] != 'X' {
				t.Errorf("%q, of a file that was changed behind the memory", got)
			}
			if err := m.ReadBack(new(bytes.Buffer), tt.size, 1); !errors.Is(err, pmem.ErrRange) {
				t.Error(err)
			}
		})
	}
}

// TestReadBackRefuses: a medium that is gone, cut or damaged is not read.
func TestReadBackRefuses(t *testing.T) {
	const size = 4 * 4096
	for name, tt := range map[string]struct {
		spoil func(t *testing.T, m *pmem.Memory, f *pmemtest.Faults) error
		want  error
		final bool
	}{
		"truncated":       {func(_ *testing.T, m *pmem.Memory, _ *pmemtest.Faults) error { return os.Truncate(m.Path(), size-4096) }, region.ErrRegionLost, true},
		"cut by an octet": {func(_ *testing.T, m *pmem.Memory, _ *pmemtest.Faults) error { return os.Truncate(m.Path(), size-1) }, region.ErrRegionLost, true},
		"removed":         {func(_ *testing.T, m *pmem.Memory, _ *pmemtest.Faults) error { return os.Remove(m.Path()) }, region.ErrRegionLost, true},
		"replaced": {func(_ *testing.T, m *pmem.Memory, _ *pmemtest.Faults) error {
			return errors.Join(os.WriteFile(m.Path()+".new", m.Bytes(), 0o600), os.Rename(m.Path()+".new", m.Path()))
		}, region.ErrRegionLost, true},
		"bad sector": {func(_ *testing.T, _ *pmem.Memory, f *pmemtest.Faults) error {
			f.FailOnce(pmem.OpRead, syscall.EIO)
			return nil
		}, syscall.EIO, false},
		"dead disk": {func(_ *testing.T, m *pmem.Memory, f *pmemtest.Faults) error {
			f.Fail(pmem.OpDatasync, syscall.EIO)
			f.Fail(pmem.OpWrite, syscall.EIO)
			if m.Persist(0, 1) == nil {
				return errors.New("persisted")
			}
			return nil
		}, syscall.EIO, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := pmemtest.NewFaults()
			m := open(t, pmem.File, newFile(t, size), f.Hook())
			defer m.Close()
			mustReadBack(t, m)
			readBack(t, m, 0, size)
			noErr(t, tt.spoil(t, m, f))
			var b bytes.Buffer
			if err := m.ReadBack(&b, 0, size); !errors.Is(err, tt.want) {
				t.Fatalf("%d octets, %v; want %v", b.Len(), err, tt.want)
			}
			if failed := m.Err() != nil; failed != tt.final {
				t.Errorf("failed for good: %v, %v", failed, m.Err())
			}
		})
	}
	m := open(t, pmem.File, newFile(t, size), nil)
	if err := errors.Join(m.Close(), m.ReadBack(new(bytes.Buffer), 0, 1)); !errors.Is(err, pmem.ErrClosed) {
		t.Error(err)
	}
}

// TestNotReadable: of a file that exists in the page cache alone nothing can be verified. The memory says so, the right
// cannot be given, and everything else works.
func TestNotReadable(t *testing.T) {
	dir := inMemory(t)
	for _, kind := range []pmem.Kind{pmem.File, pmem.Mmap} {
		path := filepath.Join(dir, kind.String())
		noErr(t, pmem.Create(path, 8192, nil))
		m := open(t, kind, path, nil)
		defer m.Close()
		if err := errors.Join(m.Store(5, []byte("x")), m.Persist(5, 1)); err != nil {
			t.Error(err)
		}
		err := m.Verifiable()
		if e := new(pmem.Error); !errors.Is(err, region.ErrNotVerifiable) || !errors.As(err, &e) || e.Err == nil {
			t.Errorf("%v: %v", kind, err)
		}
		t.Log(err)
		if err := m.ReadBack(new(bytes.Buffer), 0, 1); !errors.Is(err, region.ErrNotVerifiable) || m.Err() != nil {
			t.Error(err, m.Err())
		}
		if _, err := region.NewTable().RegisterMemory(m, region.Options{Access: region.RemoteWrite | region.Verify}); !errors.Is(err, region.ErrNotVerifiable) {
			t.Error(err)
		}
		if _, err := region.NewDomain().RegisterShared(m, region.Options{Access: region.RemoteWrite}); err != nil {
			t.Error(err)
		}
	}
}

// inMemory returns a directory on tmpfs.
func inMemory(t *testing.T) string {
	t.Helper()
	var fs unix.Statfs_t
	if err := unix.Statfs("/dev/shm", &fs); err != nil || fs.Type != unix.TMPFS_MAGIC {
		t.Skip("/dev/shm is not on tmpfs:", err)
	}
	dir, err := os.MkdirTemp("/dev/shm", "pmem") //nolint:usetesting // TempDir may be on a disk
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// TestReadBackCooled: without direct reads the page cache is emptied first, and where somebody keeps the pages in it
// nothing is read.
func TestReadBackCooled(t *testing.T) {
	m := open(t, pmem.File, newFile(t, 5*4096+5), nil)
	defer m.Close()
	mustReadBack(t, m)
	m.Warm(t)
	want := bytes.Repeat([]byte("warm"), 1000)
	noErr(t, errors.Join(m.Store(4000, want), m.Persist(4000, len(want))))
	if got := readBack(t, m, 4000, len(want)); !bytes.Equal(got, want) {
		t.Error("other octets than were persisted")
	}
	other := must(os.OpenFile(m.Path(), os.O_RDWR, 0))(t)
	defer other.Close()
	if _, err := other.WriteAt([]byte("cold"), 4096); err != nil { // dirty, until it is written
		t.Fatal(err)
	}
	if got := readBack(t, m, 4096, 4); string(got) != "cold" {
		t.Errorf("%q", got)
	}
	data := must(unix.Mmap(int(other.Fd()), 0, 4096, unix.PROT_READ, unix.MAP_SHARED|unix.MAP_POPULATE))(t)
	defer unix.Munmap(data)
	if err := m.ReadBack(new(bytes.Buffer), 100, 1); !errors.Is(err, region.ErrNotVerifiable) || m.Err() != nil {
		t.Errorf("of a page that another mapping keeps: %v, %v", err, m.Err())
	}
}

// TestBitRot: a bit changes on the disk, below the page cache, which still has the old one. Reading it back shows the
// new one.
func TestBitRot(t *testing.T) {
	const size = 16 * 4096
	image := filepath.Join(t.TempDir(), "image")
	dir := mountImage(t, image)
	for _, kind := range []pmem.Kind{pmem.File, pmem.Mmap} {
		for _, warm := range []bool{false, true} {
			if kind == pmem.Mmap && warm {
				continue // refused; see TestNotReadable
			}
			path := filepath.Join(dir, "memory-"+kind.String())
			noErr(t, errors.Join(os.RemoveAll(path), pmem.Create(path, size, nil)))
			m := open(t, kind, path, nil)
			defer m.Close()
			mustReadBack(t, m)
			if warm {
				m.Warm(t)
			}
			mark := []byte("a mark that is nowhere else: " + kind.String())
			if warm {
				mark = append(mark, " warm"...)
			}
			noErr(t, errors.Join(m.Store(5000, mark), m.Persist(5000, len(mark))))
			if got := readBack(t, m, 5000, len(mark)); !bytes.Equal(got, mark) {
				t.Fatalf("%q", got)
			}
			if b, err := os.ReadFile(path); err != nil || !bytes.Contains(b, mark) { // now the page cache has it
				t.Fatal(err)
			}
			flip(t, image, mark)
			want := bytes.Clone(mark)
			want[0] ^= 1
			if b, err := os.ReadFile(path); err != nil || !bytes.Contains(b, mark) {
				t.Skip("the page cache has given up the page:", err)
			}
			if got := readBack(t, m, 5000, len(mark)); !bytes.Equal(got, want) {
				t.Errorf("%v, warm %v: %q, but the disk holds %q", kind, warm, got, want)
			}
		}
	}
}

// mountImage mounts a new ext4 in the file image.
func mountImage(t *testing.T, image string) (dir string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can mount a loop device")
	}
	noErr(t, errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 32<<20)))
	dir = t.TempDir()
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
	return dir
}

// flip changes one bit of the mark, in the image that holds it once.
func flip(t *testing.T, image string, mark []byte) {
	t.Helper()
	b := must(os.ReadFile(image))(t)
	at := bytes.Index(b, mark)
	if at < 0 || bytes.Contains(b[at+1:], mark) {
		t.Fatal("the mark is not once on the disk:", at)
	}
	f := must(os.OpenFile(image, os.O_WRONLY, 0))(t)
	defer f.Close()
	if _, err := f.WriteAt([]byte{mark[0] ^ 1}, int64(at)); err != nil {
		t.Fatal(err)
	}
}
