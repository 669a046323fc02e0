package commitlog_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stag-rdma/stag/transport/commitlog"
)

// deaf carries nothing until it is told to.
type deaf struct {
	s    *commitlog.Prepared
	p    *commitlog.Producer
	hear chan struct{}
}

func (d *deaf) Carry(ctx context.Context, _ uint64, payloads [][]byte) (uint64, error) {
	select {
	case <-d.hear:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	for _, p := range payloads {
		if _, err := d.p.Append(ctx, p); err != nil {
			return 0, err
		}
	}
	return d.s.Head(), nil
}

func (d *deaf) Head(context.Context) (uint64, error) { return d.s.Head(), nil }

// carried opens a session of p that hears nothing yet.
func carried(t *testing.T, l *commitlog.Log, p *commitlog.Producer) (d *deaf, session context.Context) {
	t.Helper()
	prep := must(l.Prepare(t.Context(), commitlog.Instance{}))(t)
	d = &deaf{prep, commitlog.NewProducer(nil), make(chan struct{})}
	t.Cleanup(d.p.Close)
	noErr(t, prep.Local(d.p))
	a := prep.Answer()
	session = must(p.OpenCarrier(t.Context(), d, &a))(t)
	return d, session
}

// Silence ends the appends and their session: with doubt for those that were sent, without for the others, and not
// the appends of the next session.
func TestSilence(t *testing.T) {
	l, _ := newLog(t, 1<<20)
	p := commitlog.NewProducer(&commitlog.ProducerOptions{Silence: 200 * time.Millisecond})
	p.Groups(1, 256<<10)
	defer p.Close()
	_, session := carried(t, l, p)
	sent, err1 := p.Begin([]byte("sent"))
	queued, err2 := p.Begin([]byte("queued"))
	noErr(t, errors.Join(err1, err2))
	_, err := sent.Wait(t.Context())
	if !errors.Is(err, commitlog.ErrSilent) || !errors.Is(err, commitlog.ErrInDoubt) {
		t.Error(err)
	}
	if _, err := queued.Wait(t.Context()); !errors.Is(err, commitlog.ErrSilent) || errors.Is(err, commitlog.ErrInDoubt) {
		t.Error(err)
	}
	<-session.Done()
	if err := context.Cause(session); !errors.Is(err, commitlog.ErrSilent) {
		t.Error(err)
	}
	if _, err := p.Append(t.Context(), []byte("no session")); !errors.Is(err, commitlog.ErrSilent) || errors.Is(err, commitlog.ErrInDoubt) {
		t.Error(err)
	}

	d, _ := carried(t, l, p)
	close(d.hear)
	for seq := range uint64(20) { // longer than the silence, together
		time.Sleep(30 * time.Millisecond)
		if r, err := p.Append(t.Context(), []byte("heard")); err != nil || r.Seq != seq+2 {
			t.Fatal(r, err)
		}
	}
	recs, err := l.Read(t.Context(), 0, 128)
	if err != nil || string(recs[0].Payload) != "sent" || string(recs[1].Payload) != "heard" {
		t.Errorf("%v %v", recs, err)
	}
}

// What was begun before the session goes into the log in its order, and Place tells how far it is.
func TestPlace(t *testing.T) {
	l, _ := newLog(t, 1<<20)
	p := newTestProducer(t, nil)
	var pending []*commitlog.Pending
	for range 8 {
		pending = append(pending, must(p.Begin(make([]byte, 100)))(t))
	}
	noErr(t, l.Local(t.Context(), p))
	for i, e := range pending {
		if r, err := e.Wait(t.Context()); err != nil || r.Seq != uint64(i+1) {
			t.Fatal(r, err)
		}
	}
	must(p.Append(t.Context(), make([]byte, 5000)))(t)
	want := commitlog.Place{Epoch: 2, Next: 1, Acked: 9, Position: 8*128 + 5056, Limit: commitlog.PayloadLimit(1 << 20)}
	if got := p.Place(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// A producer whose ring is full, as far as it knows, asks its carrier for the head: nobody else tells it of a release.
func TestCarriedFull(t *testing.T) {
	l, _ := newLog(t, 256)
	p := newTestProducer(t, nil)
	d, _ := carried(t, l, p)
	close(d.hear)
	full := strings.Repeat("x", 100) // 128 octets each
	put(t, p, full)
	put(t, p, full)
	take(t, l, 1, full, full)
	noErr(t, l.Release(2))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if r, err := p.Append(ctx, []byte(full)); err != nil || r.Seq != 3 {
		t.Error(r, err)
	}
}
