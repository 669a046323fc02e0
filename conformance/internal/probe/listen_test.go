package probe_test

import (
	"context"
	"errors"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stag-rdma/stag/conformance/internal/probe"
	"github.com/stag-rdma/stag/conformance/internal/probe/internal/cases"
)

// trapped plays some cases of a Trap to a client.
func trapped(t *testing.T, only string, client func(ctx context.Context, addr string) probe.ClientRun) (all []*probe.Result, err error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &probe.Trap{Server: serve(t), Only: regexp.MustCompile(only), Client: client, Timeout: time.Hour}
	_, err = p.Run(t.Context(), l, func(r *probe.Result) { all = append(all, r) })
	return all, err
}

// careful is a client that wants one case of the probe to be answered as it should be, and waits for that.
func careful(ctx context.Context, addr string) probe.ClientRun { return patient(ctx, addr, time.Hour) }

// hasty gives up soon: it never gets what it wants from a server that does not answer, however slow the machine is.
func hasty(ctx context.Context, addr string) probe.ClientRun {
	return patient(ctx, addr, 50*time.Millisecond)
}

func patient(ctx context.Context, addr string, timeout time.Duration) probe.ClientRun {
	p := &probe.Prober{Address: addr, Only: regexp.MustCompile("^rdmap/solicited-event$"), Timeout: timeout, Quiet: 20 * time.Millisecond}
	failed, err := p.Run(ctx, func(*probe.Result) {})
	return probe.ClientRun{Did: "ended", OK: err == nil && failed == 0}
}

// TestTrap: a client that refuses what it must passes; one that takes anything, crashes or hangs does not.
func TestTrap(t *testing.T) {
	t.Parallel()
	runs := 0
	for only, client := range map[string]func(context.Context, string) probe.ClientRun{
		"^client/(crc|reply-no-key|pad)$": careful,
		"^client/(msn|opcode|silent)$": func(ctx context.Context, addr string) probe.ClientRun { // nothing comes that it could take for an answer
			if runs++; runs == 1 || runs == 5 {
				return careful(ctx, addr) // the good server, before and after the three cases
			}
			return hasty(ctx, addr)
		},
	} {
		all, err := trapped(t, only, client)
		if err != nil || len(all) != 3 {
			t.Errorf("%s: %+v, %v", only, all, err)
		}
		for _, r := range all {
			if r.Verdict != "ok" {
				t.Errorf("%s: %+v", r.Name, r.Tries)
			}
		}
	}
	for why, client := range map[string]func(context.Context, string) probe.ClientRun{
		"it got what it wanted": func(ctx context.Context, addr string) probe.ClientRun {
			careful(ctx, addr)
			return probe.ClientRun{OK: true}
		},
		"it crashed": func(ctx context.Context, addr string) probe.ClientRun {
			r := careful(ctx, addr)
			r.Crashed = !r.OK
			return r
		},
		"it had not ended": func(ctx context.Context, addr string) probe.ClientRun {
			r := careful(ctx, addr)
			r.Hung = !r.OK
			return r
		},
		"the judge finds it at fault": func(ctx context.Context, addr string) probe.ClientRun {
			nc, err := net.Dial("tcp", addr)
			if err != nil {
				return probe.ClientRun{Did: err.Error()}
			}
			defer nc.Close()
			_, _ = nc.Write(cases.UsualRequest())
			_, _ = nc.Read(make([]byte, 100))
			_, _ = nc.Write([]byte{0, 9, 0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}) // an FPDU that is none
			_ = nc.(*net.TCPConn).CloseWrite()
			_, _ = nc.Read(make([]byte, 100))
			return careful(ctx, addr)
		},
	} {
		all, err := trapped(t, "^client/crc$", client)
		if err != nil || len(all) != 1 || all[0].Verdict != "fails" || !strings.Contains(all[0].Tries[0].Why, why) {
			t.Errorf("%s: %+v, %v", why, all, err)
		}
	}
	_, err := trapped(t, "^client/crc$", func(context.Context, string) probe.ClientRun { return probe.ClientRun{Did: "no"} })
	if !errors.Is(err, probe.ErrClient) {
		t.Errorf("%v", err)
	}
}

// TestTrapWaits: without a command, clients come by themselves.
func TestTrapWaits(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			hasty(ctx, l.Addr().String())
		}
	}()
	p := &probe.Trap{Server: serve(t), Only: regexp.MustCompile("^client/(crc|msn)$"), Timeout: time.Hour}
	n := 0
	if failed, err := p.Run(ctx, l, func(*probe.Result) { n++ }); failed > 0 || err != nil || n != 2 {
		t.Errorf("%d cases, %d failed, %v", n, failed, err)
	}
	cancel()
	<-done
}
