package once

import (
	"context"
	"testing"

	"github.com/stag-rdma/stag/internal/pmemsim"
	"github.com/stag-rdma/stag/nfsdemo/internal/once/internal/ledger"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// TestSweepWaits: a sweep stops at a record that another one, which is not known to be durable
// yet, will replace, and continues with that same record.
func TestSweepWaits(t *testing.T) {
	const size = 16<<10 + 64<<10
	sim := pmemsim.New(size, nil)
	if err := Create(sim); err != nil {
		t.Fatal(err)
	}
	j, err := Open(sim, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	t.Cleanup(func() {
		if err := j.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	e, _, err := j.begin(ctx, ledger.Key{Sum: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.intend(ctx, e, nil, nil); err != nil {
		t.Fatal(err)
	}
	w, err := j.reply(e, []byte("result"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if p := j.pass(); p.wait == nil || p.last != 0 || p.end {
			t.Fatalf("passed a record that counts: %+v", p)
		}
	}
	j.ended(e, func(l *ledger.Ledger) { l.Done(e, j.now()) })
	p := j.pass()
	if err := j.giveBack(&p); err != nil || p.last < 2 || len(p.copies) == 0 {
		t.Fatalf("%+v, %v", p, err)
	}
	info, err := commitlog.Inspect(octets{j.mem}, size, nil)
	if n := j.Stats().Octets; err != nil || int(info.Tail-info.Head) != n {
		t.Errorf("%d octets are in use, but the ledger counts %d; %v", info.Tail-info.Head, n, err)
	}
}
