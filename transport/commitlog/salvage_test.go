package commitlog_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// filled is a log that has been appended to and released from, in several sessions and round its
// ring many times, and the records that wait in it.
func filled(t *testing.T, mode commitlog.Mode, seed uint64) (region.Bytes, []string) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 1))
	size := must(commitlog.MemorySize(1024))(t)
	mem := make(region.Bytes, size)
	noErr(t, commitlog.Create(mem, &commitlog.Options{Mode: mode}))
	var waiting []string
	n := 0
	for range 1 + rnd.IntN(4) {
		l := must(commitlog.Open(mem))(t)
		p := commitlog.NewProducer(nil)
		noErr(t, l.Local(t.Context(), p))
		for range waiting { // they come again
			must(l.Next(t.Context()))(t)
		}
		for range rnd.IntN(60) {
			r := fmt.Sprintf("record %d %s", n, bytes.Repeat([]byte{'x'}, rnd.IntN(200)))
			for {
				if _, err := p.TryBegin([]byte(r)); err == nil {
					n++
					break
				} else if !errors.Is(err, commitlog.ErrFull) {
					t.Fatal(err)
				}
				waiting = waiting[1:]
				noErr(t, l.Release(uint64(n-len(waiting))))
			}
			waiting = append(waiting, r)
			must(l.Next(t.Context()))(t)
		}
		p.Close()
		noErr(t, l.Close(t.Context()))
	}
	return mem, waiting
}

// TestMend: of a log whose tail word is damaged all records are found, and no old ones; mended it
// has them, and continues after them.
func TestMend(t *testing.T) {
	for seed := range uint64(40) {
		mode := commitlog.Mode(1 + seed%2)
		mem, want := filled(t, mode, seed)
		if _, err := commitlog.Mend(mem); !errors.Is(err, commitlog.ErrHealthy) {
			t.Fatal("a good log:", err)
		}
		copy(mem[8192:], []byte{0xff, 0, 0, 0, 0, 0, 0, byte(seed)})
		broken := slices.Clone(mem)
		if _, err := commitlog.Open(mem); !commitlog.TailError(err) {
			t.Fatal(err)
		}
		var got []string
		visit := func(r *commitlog.Record, behind bool) error {
			if behind {
				t.Errorf("%+v is not behind anything", r)
			}
			got = append(got, string(r.Payload))
			return nil
		}
		info, err := commitlog.Salvage(bytes.NewReader(mem), int64(len(mem)), visit)
		if err != nil || !slices.Equal(got, want) || info.Poison != nil || !bytes.Equal(mem, broken) {
			t.Fatalf("seed %d: %+v %v\n got %q\nwant %q", seed, info, err, got, want)
		}
		sim := pmemtest.OpenSim(mem, nil)
		mended, err := commitlog.Mend(sim)
		if err != nil || *mended != *info {
			t.Fatalf("%+v %v, want %+v", mended, err, info)
		}
		l, err := commitlog.Open(pmemtest.OpenSim(sim.Told().Durable(), nil)) // behind a loss of power
		noErr(t, err)
		p := commitlog.NewProducer(nil)
		noErr(t, l.Local(t.Context(), p))
		for _, r := range want {
			if rec, err := l.TryNext(); err != nil || string(rec.Payload) != r {
				t.Fatal(rec, err)
			}
		}
		if len(want) > 0 {
			noErr(t, l.Release(info.NextSeq-1))
		}
		res, err := p.Append(t.Context(), []byte("behind"))
		if err != nil || res.Seq != info.NextSeq {
			t.Fatal(res, err)
		}
		p.Close()
		noErr(t, l.Close(t.Context()))
	}
}

// TestMendDamaged: of a log with a damaged record everything else is found, in WAL mode also behind the durable tail; and
// nothing that lies behind the damage comes back after the log was cut off there.
func TestMendDamaged(t *testing.T) {
	for seed := range uint64(40) {
		mode := commitlog.Mode(1 + seed%2)
		mem, want := filled(t, mode, seed)
		if len(want) < 2 {
			continue
		}
		var at []uint64
		info, err := commitlog.Inspect(bytes.NewReader(mem), int64(len(mem)), func(r *commitlog.Record) error { at = append(at, r.Pos); return nil })
		noErr(t, err)
		bad := int(seed) % (len(want) - 1)
		mem[20480+at[bad]%1024+28] ^= 1
		if mode == commitlog.WAL && seed%4 == 0 { // as if it had never been flushed
			copy(mem[8192:], binary.BigEndian.AppendUint64(nil, info.Head))
		}
		var got, behind []string
		salvaged, err := commitlog.Salvage(bytes.NewReader(mem), int64(len(mem)), func(r *commitlog.Record, later bool) error {
			if later {
				behind = append(behind, string(r.Payload))
			} else {
				got = append(got, string(r.Payload))
			}
			return nil
		})
		if err != nil || !slices.Equal(got, want[:bad]) || !slices.Equal(behind, want[bad+1:]) || salvaged.Poison == nil || salvaged.Poison.Pos != at[bad] {
			t.Fatalf("seed %d: %+v %v\n got %q and %q\nwant %q without %d", seed, salvaged, err, got, behind, want, bad)
		}
		mended, err := commitlog.Mend(mem)
		if err != nil || *mended != *salvaged {
			if !(mended != nil && *mended.Poison == *salvaged.Poison) {
				t.Fatalf("%+v %v, want %+v", mended, err, salvaged)
			}
		}
		l := must(commitlog.Open(mem))(t)
		p := commitlog.NewProducer(nil)
		noErr(t, l.Local(t.Context(), p))
		for _, r := range want[:bad] {
			if rec, err := l.TryNext(); err != nil || string(rec.Payload) != r {
				t.Fatal(rec, err)
			}
		}
		res, err := p.Append(t.Context(), []byte("instead"))
		if err != nil || res.Seq != salvaged.NextSeq {
			t.Fatal(res, err)
		}
		if rec, err := l.TryNext(); err != nil || string(rec.Payload) != "instead" || rec.Epoch != mended.Epoch+2 {
			t.Fatal(rec, err)
		}
		if rec, err := l.TryNext(); rec != nil || err != nil {
			t.Fatal(rec, err)
		}
		p.Close()
		noErr(t, l.Close(t.Context()))
	}
}

// TestMendMissing: where the header knows of records that are not there, the log ends where they would begin, and
// their producer is refused; damage of the header is for nobody to mend.
func TestMendMissing(t *testing.T) {
	mem := make(region.Bytes, 20480+1024)
	noErr(t, commitlog.Create(mem, nil))
	for _, r := range []string{"one", "two"} { // a session each
		l := must(commitlog.Open(mem))(t)
		p := commitlog.NewProducer(nil)
		noErr(t, l.Local(t.Context(), p))
		must(p.Append(t.Context(), []byte(r)))(t)
		p.Close()
		noErr(t, l.Close(t.Context()))
	}
	mem[8192+7]++
	mem[20480+28] ^= 1 // of the first record
	info, err := commitlog.Salvage(bytes.NewReader(mem), int64(len(mem)), nil)
	if err != nil || info.Poison == nil || info.Tail != 0 {
		t.Errorf("%+v %v", info, err)
	}
	if _, err := commitlog.Mend(mem); err != nil {
		t.Error(err)
	}
	if info, err := commitlog.Inspect(bytes.NewReader(mem), int64(len(mem)), nil); err != nil || info.Poison != nil || info.NextSeq != 1 || info.Epoch != 3 {
		t.Errorf("%+v %v", info, err)
	}
	mem[0] ^= 1
	mem[4096] ^= 1 // both magics
	if _, err := commitlog.Mend(mem); !errors.Is(err, commitlog.ErrMagic) || commitlog.TailError(err) {
		t.Error(err)
	}
}
