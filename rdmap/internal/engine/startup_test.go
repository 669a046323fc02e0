package engine_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

func startups(t *testing.T, i, r engine.StartupConfig) (a, b *engine.Startup, request []byte) {
	t.Helper()
	i.Initiator = true
	for _, c := range []*engine.StartupConfig{&i, &r} {
		c.MPA.Rev, c.MPA.MaxRev, c.MPA.Markers = 2, 2, true
	}
	a, request, err := engine.NewStartup(i)
	if err != nil {
		t.Fatal(err)
	}
	b, none, err := engine.NewStartup(r)
	if err != nil || none != nil {
		t.Fatalf("a responder begins with %x, %v", none, err)
	}
	return a, b, request
}

// TestStartup: both sides agree on what is in force, however the frames are cut.
func TestStartup(t *testing.T) {
	for _, tt := range []struct {
		name   string
		i, r   engine.StartupConfig
		stag   bool
		ext    verbs.Extensions // in force at the initiator
		mulpdu int
	}{
		{
			"stags",
			engine.StartupConfig{Extensions: verbs.Ext7306 | verbs.ExtCommit},
			engine.StartupConfig{Extensions: verbs.ExtCommit},
			true, verbs.ExtCommit, engine.StagMULPDU,
		},
		{
			"plain responder",
			engine.StartupConfig{Extensions: verbs.ExtSwap},
			engine.StartupConfig{Plain: true},
			false, verbs.ExtSwap | verbs.Ext7306, mpa.MULPDU(1448, false),
		},
		{"plain initiator", engine.StartupConfig{Plain: true}, engine.StartupConfig{}, false, 0, mpa.MULPDU(1448, false)},
		{"MULPDU", engine.StartupConfig{MULPDU: 200}, engine.StartupConfig{}, true, 0, 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.i.PrivateData = []byte("hello")
			tt.i.MPA.IRD, tt.i.MPA.ORD, tt.r.MPA.IRD, tt.r.MPA.ORD = 8, 5, 3, 9
			tt.r.Accept = func(req *mpa.Request) ([]byte, error) {
				if !bytes.HasPrefix(req.PrivateData, []byte("hello")) {
					t.Errorf("private data %q", req.PrivateData)
				}
				return []byte("welcome"), nil
			}
			a, b, request := startups(t, tt.i, tt.r)
			var reply []byte
			for n := 1; n <= len(request); n++ {
				done, out, err := b.Input(request[:n])
				if err != nil || done != (n == len(request)) || done != (len(out) > 0) {
					t.Fatalf("after %d octets of %d: %v, %d octets, %v", n, len(request), done, len(out), err)
				}
				reply = out
			}
			for n := 1; n <= len(reply); n++ {
				done, out, err := a.Input(reply[:n])
				if err != nil || done != (n == len(reply)) || len(out) > 0 {
					t.Fatalf("after %d octets of %d: %v, %d octets, %v", n, len(reply), done, len(out), err)
				}
			}
			p, q := a.Params(1448), b.Params(1448)
			if string(p.PrivateData) != "welcome" || p.Stag != tt.stag || p.Extensions != tt.ext || p.MULPDU != tt.mulpdu || !p.Initiator {
				t.Errorf("initiator: %+v", p)
			}
			if p.ORD != 3 || q.ORD != 8 || p.CRC != q.CRC || q.Stag != tt.stag || q.Initiator {
				t.Errorf("initiator %+v, responder %+v", p, q)
			}
		})
	}
}

// TestStartupRefused: the peer is told, and both sides get an error of their own.
func TestStartupRefused(t *testing.T) {
	no := errors.New("no")
	a, b, request := startups(t, engine.StartupConfig{}, engine.StartupConfig{
		Accept: func(*mpa.Request) ([]byte, error) { return []byte("busy"), no },
	})
	done, reply, err := b.Input(request)
	if done || len(reply) == 0 || !errors.Is(err, no) {
		t.Fatalf("responder: %v, %x, %v", done, reply, err)
	}
	done, out, err := a.Input(reply)
	rej, ok := errors.AsType[*mpa.RejectError](err)
	if done || out != nil || !ok || string(rej.Reply.PrivateData) != "busy" {
		t.Fatalf("initiator: %v, %x, %v", done, out, err)
	}
}

// TestStartupOlder: a peer that closes instead of answering may know only revision 1; one that has answered does not.
func TestStartupOlder(t *testing.T) {
	a, b, request := startups(t, engine.StartupConfig{}, engine.StartupConfig{})
	if !a.Older(nil) || b.Older(nil) {
		t.Error("a silent peer")
	}
	_, reply, err := b.Input(request)
	if err != nil || a.Older(reply) {
		t.Errorf("a peer that has answered, %v", err)
	}
}
