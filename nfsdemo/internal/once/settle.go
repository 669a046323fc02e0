package once

import (
	"context"
	"fmt"

	"github.com/stag-rdma/stag/internal/mutant"
	"github.com/stag-rdma/stag/nfsdemo/internal/once/internal/ledger"
	"go.uber.org/zap"
)

// New settles the calls that the last crash has left open, records that durably, and returns a handler
// that serves svc. A Journal has only one. log may be nil. The error is that of ctx, of Service.Settle
// or of the journal; then New may be called again.
func New(ctx context.Context, j *Journal, svc Service, log *zap.Logger) (*Handler, error) {
	if log == nil {
		log = zap.NewNop()
	}
	h := &Handler{j: j, svc: svc, log: log}
	var all []func() error
	for len(j.open) > 0 {
		wait, err := h.settle(ctx, &j.open[0])
		if err != nil {
			return nil, fmt.Errorf("once: settling a call from before the restart: %w", err)
		}
		all = append(all, wait)
		j.open = j.open[1:]
	}
	for _, wait := range all {
		if err := wait(); err != nil {
			return nil, err
		}
	}
	return h, j.Err()
}

// settle finds out what has become of a call with an intent but no reply, and begins to record it. It
// returns a function that waits for the record.
func (h *Handler) settle(ctx context.Context, u *ledger.Unsettled) (wait func() error, err error) {
	j, k := h.j, &u.Key
	in := &Intent{Call: Call{XID: k.XID, Prog: k.Prog, Vers: k.Vers, Proc: k.Proc}, Args: u.Args, State: u.State, Len: k.Len, Sum: k.Sum}
	results, outcome, err := h.svc.Settle(ctx, in, nil)
	if err != nil {
		return nil, err
	}
	if mutant.Is(mutant.NoSettlement) {
		outcome = NotDone
	}
	h.log.Info("once: call settled", zap.Stringer("outcome", outcome), zap.Uint32("rpc.xid", k.XID),
		zap.Uint32("rpc.procedure", k.Proc), zap.String("client", k.Client.Addr))
	j.settled(outcome)
	if outcome == NotDone {
		w, err := j.void(u.Entry)
		return func() error { return j.wait(w) }, err
	}
	if outcome == Unknown {
		results = h.svc.Refuse(&in.Call, OutcomeUnknown, nil)
	}
	w, err := j.reply(u.Entry, results)
	return func() error { return j.recorded(u.Entry, w) }, err
}

// settled counts a call.
func (j *Journal) settled(o Outcome) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch o {
	case NotDone:
		j.stats.SettledNotDone++
	case Done:
		j.stats.SettledDone++
	case Unknown:
		j.stats.SettledUnknown++
	}
}
