package push_test

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/internal/rendezvous"
	"github.com/stag-rdma/stag/transport/push"
)

// Whoever has not the secret learns nothing: the same answer for a log that is there, one
// that is not, one that cannot be, and a name that was issued; from the owner's host or
// another; and the log stays the owner's.
func TestSecret(t *testing.T) {
	w := start(t, &push.Server{})
	secret := push.NewSecret()
	s := w.dial("log", &push.Config{Secret: secret})
	appended(t, s, commitlog.Persistent, 1, "one")
	wrong := secret
	wrong[15] ^= 1
	for _, host := range []string{"127.0.0.1:9", "192.0.2.2:1"} {
		for what, a := range map[string]openArgs{
			"wrong secret":        {Name: "log", Secret: wrong},
			"no secret":           {Name: "log"},
			"no such log, zeros":  {Name: "nothing"},
			"no such log, resume": {Name: "nothing", Secret: secret, Resume: true},
			"a path":              {Name: "../log"},
			"a path, secret":      {Name: "../log", Secret: secret},
			"no name":             {Name: "", Secret: secret},
		} {
			got := ask(w.ps, host, a)
			if got != (openRes{Status: push.StatusRefused}) {
				t.Errorf("%s from %s: %+v", what, host, got)
			}
		}
	}
	appended(t, s, commitlog.Persistent, 2, "two") // nobody has fenced it
	if _, err := w.tryDial("log", nil); !errors.Is(err, push.StatusRefused) {
		t.Error(err)
	}
	if e, ok := errors.AsType[*push.Error](func() error { _, err := w.tryDial("log", &push.Config{Secret: wrong}); return err }()); !ok || e.Op != "open" || e.Log != "log" {
		t.Error(e)
	}
	w.take("log", 1, "one", "two")
}

// slowStore makes logs when it is told to.
type slowStore struct {
	*memStore
	begun, end chan struct{}
}

func (s *slowStore) Create(name string, size int, from push.Origin, format func(region.Memory) error) error {
	s.begun <- struct{}{}
	<-s.end
	return s.memStore.Create(name, size, from, format)
}

// The first OPEN with a free name makes the log, once, for its secret: an owner whose answer was lost, or who is too
// early with the next OPEN, gets the log with the same secret, also after a restart, and others get nothing.
func TestFirstOpen(t *testing.T) {
	store := &slowStore{newMemStore(), make(chan struct{}), make(chan struct{})}
	ps := &push.Server{Store: store}
	mine, other := openArgs{Name: "log", Secret: push.Secret{1}, Instance: key{1}}, openArgs{Name: "log", Secret: push.Secret{2}, Instance: key{2}}
	lost := make(chan openRes)
	go func() { lost <- ask(ps, "192.0.2.1:1", mine) }()
	<-store.begun
	for range 2 {
		if r := ask(ps, "192.0.2.2:1", other); r.Status != push.StatusRefused {
			t.Error("while it is being made, with another secret:", r.Status)
		}
		if r := ask(ps, "192.0.2.1:1", mine); r.Status != push.StatusBusy {
			t.Error("while it is being made:", r.Status)
		}
	}
	close(store.end)
	if r := <-lost; r.Status != push.StatusOK || r.Opened.Answer.Epoch != 1 {
		t.Fatal(r)
	}
	for restart := range 2 {
		if r := ask(ps, "192.0.2.1:1", mine); r.Status != push.StatusOK || r.Opened.Answer.Epoch != uint32(2+restart) || r.Opened.Answer.NextSeq != 1 {
			t.Error(restart, r)
		}
		if r := ask(ps, "192.0.2.2:1", other); r.Status != push.StatusRefused {
			t.Error(restart, r.Status)
		}
		if err := ps.Close(context.Background()); err != nil {
			t.Error(err)
		}
		ps = &push.Server{Store: store.memStore.crashed()}
		if err := ps.Load(); err != nil {
			t.Error(err)
		}
	}
	defer ps.Close(context.Background())
	if st := ps.Stats(); st.Logs != 1 {
		t.Errorf("%+v", st)
	}
}

// tokenOf begins a session and returns its token.
func tokenOf(t *testing.T, w *world, secret push.Secret) rendezvous.Token {
	t.Helper()
	r := ask(w.ps, "127.0.0.1:1", openArgs{Name: "log", Secret: secret, Native: true})
	if r.Status != push.StatusOK || r.Opened.Commit == nil {
		t.Fatal(r.Status)
	}
	return r.Opened.Commit.Token
}

// knock shows private data on a commit connection.
func knock(t *testing.T, w *world, data []byte) (*rdmap.Conn, error) {
	t.Helper()
	nc := must(net.Dial("tcp", w.ps.Addr))(t)
	cfg := commitlog.NewProducer(nil).Config(nil)
	cfg.Startup.PrivateData = data
	c := rdmap.Client(nc, cfg)
	t.Cleanup(func() { c.Abort(nil) })
	return c, c.Handshake(t.Context())
}

// A token is good once, for a while, for its session; whoever shows another, a part of
// one or none is rejected and told nothing.
func TestToken(t *testing.T) {
	w := start(t, &push.Server{})
	secret := push.NewSecret()
	s := w.dial("log", &push.Config{Secret: secret})
	_ = s.Close(t.Context())
	rejected := func(what string, data []byte) {
		t.Helper()
		_, err := knock(t, w, data)
		e, ok := errors.AsType[*verbs.RejectError](err)
		if !ok || len(e.PrivateData) != 0 {
			t.Errorf("%s: %v", what, err)
		}
	}
	k := tokenOf(t, w, secret)
	rejected("nothing", nil)
	rejected("another token", rendezvous.PrivateData(rendezvous.Token{1}))
	rejected("no token", rendezvous.PrivateData(rendezvous.Token{}))
	rejected("half of it", rendezvous.PrivateData(k)[:16])
	rejected("more than it", append(rendezvous.PrivateData(k), 0))
	if _, err := knock(t, w, rendezvous.PrivateData(k)); err != nil {
		t.Error("the token itself:", err)
	}
	rejected("replayed", rendezvous.PrivateData(k))

	k = tokenOf(t, w, secret)
	_ = tokenOf(t, w, secret)
	rejected("of a session before", rendezvous.PrivateData(k))

	r := ask(w.ps, "127.0.0.1:1", openArgs{Name: "log", Secret: secret, Native: true})
	if st := appendRecords(t.Context(), w.ps, &appendArgs{Session: r.Opened.Session, Seq: 1}); st != push.StatusOK {
		t.Fatal(st)
	}
	rejected("of a session of calls", rendezvous.PrivateData(r.Opened.Commit.Token))
	if st := appendRecords(t.Context(), w.ps, &appendArgs{Session: key(r.Opened.Commit.Token), Seq: 1}); st != push.StatusStale {
		t.Error("a token is not a session:", st)
	}
	if n := w.ps.Stats().Rejected; n != 8 {
		t.Errorf("%d rejected", n)
	}
}

// Dial wants a secret.
func TestNoSecret(t *testing.T) {
	w := start(t, &push.Server{})
	if _, err := push.Dial(t.Context(), w.caller(), "log", nil); !errors.Is(err, push.ErrNoSecret) {
		t.Error(err)
	}
	if st := w.ps.Stats(); st.Logs != 0 {
		t.Error(st)
	}
}
