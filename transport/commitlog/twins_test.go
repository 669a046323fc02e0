package commitlog_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// released is a log that has had sessions, each with a record, and whose consumer has released all of them.
func released(t *testing.T, sessions int) region.Bytes {
	t.Helper()
	size := must(commitlog.MemorySize(4096))(t)
	mem := make(region.Bytes, size)
	noErr(t, commitlog.Create(mem, nil))
	l := must(commitlog.Open(mem))(t)
	for n := range sessions {
		s := must(l.Prepare(t.Context(), commitlog.Instance{byte(n + 1)}))(t)
		p := commitlog.NewProducer(nil)
		noErr(t, s.Local(p))
		r := must(p.Append(t.Context(), []byte("record")))(t)
		p.Close()
		must(l.Next(t.Context()))(t)
		noErr(t, l.Release(r.Seq))
	}
	noErr(t, l.Close(t.Context()))
	return mem
}

// A bit that flips in any octet of a header or a head slot is said, also where no record is left to prove it. No number is
// used again, nobody that a forgotten session may have fenced can resume, and the next session mends the header.
func TestDamagedTwin(t *testing.T) {
	for sessions := 1; sessions <= 3; sessions++ {
		good := released(t, sessions)
		for _, block := range []struct {
			off, n int
			header bool
		}{{0, 192, true}, {4096, 192, true}, {12288, 20, false}, {16384, 20, false}} {
			for off := block.off; off < block.off+block.n; off++ {
				mem := slices.Clone(good)
				mem[off] ^= 1 << (off % 8)
				info, err := commitlog.Inspect(bytes.NewReader(mem), int64(len(mem)), nil)
				if errors.Is(err, commitlog.ErrVersion) {
					continue
				}
				if err != nil {
					t.Fatal(off, err)
				}
				said := info.BadHead
				if block.header {
					said = info.BadHeader
				}
				next := uint64(sessions + 1)
				if said == nil || said.Off < block.off || said.Off >= block.off+block.n || info.NextSeq != next {
					t.Errorf("octet %d of %d sessions: %+v", off, sessions, info)
				}
				l, err := commitlog.Open(mem)
				if err != nil {
					t.Fatal(off, err)
				}
				if i := l.Instance(); block.header != (i == commitlog.Instance{}) {
					t.Errorf("octet %d of %d sessions: instance %x", off, sessions, i)
				}
				p := commitlog.NewProducer(nil)
				if err := l.Local(t.Context(), p); err != nil {
					t.Fatal(off, sessions, err)
				}
				if r, err := p.Append(t.Context(), []byte("next")); err != nil || r.Seq != next {
					t.Errorf("octet %d of %d sessions: %+v %v", off, sessions, r, err)
				}
				p.Close()
				noErr(t, l.Close(t.Context()))
				if info, err = commitlog.Inspect(bytes.NewReader(mem), int64(len(mem)), nil); err != nil || block.header && info.BadHeader != nil {
					t.Errorf("octet %d of %d sessions, after the next one: %+v %v", off, sessions, info, err)
				}
			}
		}
	}
}

// The header of the first session is damaged, or gone, before a tail was ever flushed: its records are not forgotten, nor
// is a number used again.
func TestDamagedFirstHeader(t *testing.T) {
	mem := make(region.Bytes, 20480+4096)
	noErr(t, commitlog.Create(mem, nil))
	l := must(commitlog.Open(mem))(t)
	p := commitlog.NewProducer(nil)
	noErr(t, l.Local(t.Context(), p))
	must(p.Append(t.Context(), []byte("record")))(t)
	p.Close()
	noErr(t, l.Close(t.Context()))
	clear(mem[8192:8200]) // as a crash leaves the tail word
	if info, err := commitlog.Inspect(bytes.NewReader(mem), int64(len(mem)), nil); err != nil || info.NextSeq != 2 || info.Poison != nil {
		t.Fatalf("whole: %+v %v", info, err)
	}
	for off := 4096; off <= 4096+192; off++ {
		bad := slices.Clone(mem)
		if off < 4096+192 {
			bad[off] ^= 1 << (off % 8)
		} else {
			clear(bad[4096:off])
		}
		info, err := commitlog.Inspect(bytes.NewReader(bad), int64(len(bad)), nil)
		if errors.Is(err, commitlog.ErrVersion) {
			continue
		}
		if err != nil || info.Poison == nil || info.Poison.Seq != 1 {
			t.Errorf("octet %d: %+v %v", off, info, err)
			continue
		}
		l, err := commitlog.Open(bad)
		if err != nil {
			t.Fatal(off, err)
		}
		if _, err := l.Prepare(t.Context(), commitlog.Instance{}); !errors.As(err, new(*commitlog.PoisonError)) {
			t.Errorf("octet %d: a session begins: %v", off, err)
		}
		noErr(t, l.Close(t.Context()))
	}
}
