package commitlog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// oldLog is a memory with a log that has had some sessions, each of three records, of which the
// first one has been released in each; and what Inspect says of it.
func oldLog(t *testing.T, mode commitlog.Mode, sessions int) (octets []byte, info *commitlog.Info, records []pmemtest.Record) {
	t.Helper()
	mem := sim(2048)
	l := newTestLog(t, mem, mode)
	for range sessions {
		p := newTestProducer(t, nil)
		noErr(t, l.Local(t.Context(), p))
		for i := range 3 {
			r := must(p.Append(context.Background(), fmt.Appendf(nil, "old %d", i)))(t)
			must(l.Next(t.Context()))(t)
			if i == 0 {
				noErr(t, l.Release(r.Seq))
			}
		}
	}
	octets = bytes.Clone(mem.Bytes())
	info, err := commitlog.Inspect(bytes.NewReader(octets), int64(len(octets)), func(r *commitlog.Record) error {
		records = append(records, pmemtest.Record{Seq: r.Seq, Payload: r.Payload})
		return nil
	})
	noErr(t, err)
	return octets, info, records
}

// TestCreateCrash crashes Create over a log that there is at every moment: Open finds all of the
// old log, or none, or once Create has returned the new one; never some of the old one, such as its
// records without the last session, whose epoch would then be given away again.
func TestCreateCrash(t *testing.T) {
	for _, mode := range []commitlog.Mode{commitlog.Strict, commitlog.WAL} {
		for sessions := range 4 { // the newer header is the one or the other
			for _, zeroed := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v/%d/zeroed=%v", mode, sessions, zeroed), func(t *testing.T) {
					octets, info, records := oldLog(t, mode, sessions)
					createCrash(t, octets, info, records, zeroed)
				})
			}
		}
	}
}

// createCrash is one of these. With zeroed, somebody has stored zeros before, and not flushed them.
func createCrash(t *testing.T, octets []byte, old *commitlog.Info, records []pmemtest.Record, zeroed bool) {
	creating, created := false, false
	fresh := 0
	_, err := pmemtest.Explore(&pmemtest.Script{
		Name: "create over a log", Size: len(octets),
		Run: func(x *pmemtest.Trial) error {
			if err := errors.Join(x.Mem.Store(0, octets), x.Mem.Persist(0, len(octets))); err != nil {
				return err
			}
			creating = true
			if zeroed { // by blocks, as a writer would
				for off := 0; off < len(octets); off += 1024 {
					if err := x.Mem.Store(off, make([]byte, 1024)); err != nil {
						return err
					}
				}
			}
			if err := commitlog.Create(x.Mem, nil); err != nil {
				return err
			}
			created = true
			x.Sent(1, nil)
			x.Acked(1, nil) // a moment
			return nil
		},
		Recover: func(b []byte) ([]pmemtest.Record, error) {
			if !creating {
				return nil, pmemtest.ErrNothing
			}
			var got []pmemtest.Record
			info, err := commitlog.Inspect(bytes.NewReader(b), int64(len(b)), func(r *commitlog.Record) error {
				got = append(got, pmemtest.Record{Seq: r.Seq, Payload: r.Payload})
				return nil
			})
			switch {
			case errors.Is(err, commitlog.ErrMagic) && !created:
				return nil, pmemtest.ErrNothing
			case err != nil && !(zeroed && !created): // what others have stored is theirs
				return nil, err
			case err == nil && info.ID != old.ID:
				want := &commitlog.Info{ID: info.ID, Mode: commitlog.WAL, Capacity: old.Capacity, HeadSeq: 1, NextSeq: 1}
				if *info != *want || len(got) > 0 {
					return nil, fmt.Errorf("a new log that is not empty: %+v, %d records", info, len(got))
				}
				fresh++
			case err == nil && !zeroed:
				info.BadHeader = nil // the older one goes first
				if created || fmt.Sprint(*info, got) != fmt.Sprint(*old, records) {
					return nil, fmt.Errorf("only part of the old log: %+v %v, want %+v %v", *info, got, *old, records)
				}
			}
			if created {
				return []pmemtest.Record{{Seq: 1}}, nil
			}
			return nil, pmemtest.ErrNothing
		},
	}, pmemtest.Budget{Samples: 16})
	noErr(t, err)
	if fresh == 0 {
		t.Error("the new log was never found")
	}
}
