package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// pair returns two connected sides, a the initiator; both are closed by the test's end.
func pair(t *testing.T, tcp bool, crc rdmap.CRCMode) (a, b *rdmap.Conn) {
	t.Helper()
	var x, y net.Conn
	if tcp {
		x, y = tcpPair(t)
	} else {
		x, y = rdmaptest.Pipe()
	}
	a, b = rdmap.Client(x, pingConfig(crc)), rdmap.Server(y, pingConfig(crc))
	done := make(chan error, 1)
	go func() { done <- b.Handshake(t.Context()) }()
	check(t, errors.Join(a.Handshake(t.Context()), <-done))
	t.Cleanup(func() { a.Abort(nil); b.Abort(nil) })
	return a, b
}

func tcpPair(t *testing.T) (x, y net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer l.Close()
	if x, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if y, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return x, y
}

func TestPing(t *testing.T) {
	for _, tcp := range []bool{false, true} {
		for _, crc := range []rdmap.CRCMode{rdmap.CRCOn, rdmap.CRCOff} {
			for _, size := range []int{1, 2, 63, 64, 100, 1024, 4096, 60000, maxPing} {
				t.Run(fmt.Sprintf("tcp=%v/crc=%d/%d", tcp, crc, size), func(t *testing.T) {
					a, b := pair(t, tcp, crc)
					var pings int
					done := make(chan error, 1)
					go func() {
						var err error
						pings, err = echoPings(t.Context(), b)
						b.Close() // with what it ended with: the client's end
						done <- err
					}()
					err := sendPings(t.Context(), a, size, 4)
					if err := errors.Join(err, a.Close(), <-done); err != nil || pings != 4 {
						t.Errorf("%d pings, %v", pings, err)
					}
					if a.ConnectionState().CRC != (crc == rdmap.CRCOn) {
						t.Error("CRC is not what was requested")
					}
				})
			}
		}
	}
}

// TestEchoRefuses: clients that do something else.
func TestEchoRefuses(t *testing.T) {
	mem := make([]byte, 64)
	for _, tt := range []struct {
		name   string
		sends  func(stag region.STag) [][]byte
		closes bool
		want   func(error) bool
	}{
		{"short message", func(region.STag) [][]byte { return [][]byte{make([]byte, 15)} }, false, is(errPing)},
		{"empty message", func(region.STag) [][]byte { return [][]byte{{}} }, false, is(errPing)},
		{"long message", func(region.STag) [][]byte { return [][]byte{make([]byte, 17)} }, false, isA[*verbs.ProtocolError]},
		{"nothing to read", func(s region.STag) [][]byte { return infos(pingInfo{RKey: s}) }, false, is(errPing)},
		{"too much to read", func(s region.STag) [][]byte { return infos(pingInfo{RKey: s, Len: maxPing + 1}) }, false, is(errPing)},
		{"4 GiB to read", func(s region.STag) [][]byte { return infos(pingInfo{RKey: s, Len: 1<<32 - 1}) }, false, is(errPing)},
		{"wrong STag", func(s region.STag) [][]byte { return infos(pingInfo{RKey: s ^ 0xff, Len: 64}) }, false, isA[*verbs.TerminateError]},
		{"beyond the buffer", func(s region.STag) [][]byte { return infos(pingInfo{RKey: s, Addr: 1, Len: 64}) }, false, isA[*verbs.TerminateError]},
		{"another sink size", func(s region.STag) [][]byte {
			return infos(pingInfo{RKey: s, Len: 64}, pingInfo{RKey: s, Len: 63})
		}, false, is(errPing)},
		{"end in the middle", func(s region.STag) [][]byte { return infos(pingInfo{RKey: s, Len: 64}) }, true, is(io.EOF)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, b := pair(t, false, rdmap.CRCOn)
			reg, err := a.Register(mem, region.RemoteRead)
			check(t, err)
			done := make(chan error, 1)
			go func() {
				_, err := echoPings(t.Context(), b)
				done <- err
			}()
			for i, m := range tt.sends(reg.STag()) {
				if i > 0 { // in turn: the go-ahead is awaited
					if _, err := a.Recv(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				check(t, a.Send(t.Context(), m))
			}
			if tt.closes {
				if _, err := a.Recv(t.Context()); err != nil {
					t.Fatal(err)
				}
				go a.Close()
			} else {
				go a.Serve() //nolint:errcheck // it ends with the connection
			}
			if err := <-done; !tt.want(err) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestPingNotices: servers that do something else.
func TestPingNotices(t *testing.T) {
	for _, tt := range []struct {
		name  string
		serve func(ctx context.Context, c *rdmap.Conn) error
		want  func(error) bool
	}{
		{"nothing written", func(ctx context.Context, c *rdmap.Conn) error { return answers(ctx, c, 16, 16) }, is(errPingData)},
		{"short go-ahead", func(ctx context.Context, c *rdmap.Conn) error { return answers(ctx, c, 4) }, is(errPing)},
		{"closes", func(ctx context.Context, c *rdmap.Conn) error { return answers(ctx, c, 16) }, is(io.EOF)},
		{"one octet wrong", spoil, is(errPingData)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, b := pair(t, false, rdmap.CRCOn)
			done := make(chan error, 1)
			go func() { done <- errors.Join(tt.serve(t.Context(), b), b.Close()) }()
			if err := sendPings(t.Context(), a, 64, 1); !tt.want(err) {
				t.Errorf("%v", err)
			}
			a.Abort(nil)
			<-done // however the client's end affected it
		})
	}
}

// answers answers messages with zeros of the given sizes, and does nothing else.
func answers(ctx context.Context, c *rdmap.Conn, sizes ...int) error {
	for _, n := range sizes {
		if _, err := c.Recv(ctx); err != nil {
			return err
		}
		if err := c.Send(ctx, make([]byte, n)); err != nil {
			return err
		}
	}
	return nil
}

// spoil is a server that writes one octet back wrong: the last.
func spoil(ctx context.Context, c *rdmap.Conn) error {
	var data []byte
	for i := range 2 {
		m, err := c.Recv(ctx)
		if err != nil {
			return err
		}
		info, err := parseInfo(m.Data)
		if err != nil {
			return err
		}
		if i == 0 {
			data = make([]byte, info.Len)
			err = c.Read(ctx, data, info.RKey, info.Addr)
		} else {
			data[len(data)-1] ^= 1
			err = c.Write(ctx, data, info.RKey, info.Addr)
		}
		if err := errors.Join(err, c.Send(ctx, make([]byte, 16))); err != nil {
			return err
		}
	}
	return nil
}

func TestServe(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	const conns = 5
	results := make(chan pingResult, conns+1)
	s := &pingServer{CRC: rdmap.CRCOn, Conns: conns + 1, Report: func(r pingResult) { results <- r }}
	done := make(chan error, 1)
	go func() { done <- s.Serve(t.Context(), l) }()
	for i := range conns {
		go func() {
			state, err := dialPing(t.Context(), l.Addr().String(), rdmap.CRCOff, 64, i+1)
			if err != nil || !state.CRC || state.IRD != 1 || state.ORD != 1 {
				t.Errorf("%+v, %v", state, err)
			}
		}()
	}
	nc, err := net.Dial("tcp", l.Addr().String()) // not iWARP
	check(t, err)
	if _, err := nc.Write(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	pings, failed := 0, 0
	for range conns + 1 {
		r := <-results
		if pings += r.Pings; r.Err != nil {
			failed++
		}
	}
	if err := <-done; err != nil || pings != 15 || failed != 1 {
		t.Errorf("%d pings, %d failed, %v", pings, failed, err)
	}
}

// TestServeEnds: the end of the context ends a silent connection too, and so does the
// time limit.
func TestServeEnds(t *testing.T) {
	for _, limit := range []time.Duration{0, 20 * time.Millisecond} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		check(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan pingResult, 1)
		s := &pingServer{Conns: 2, Timeout: limit, Report: func(r pingResult) { result <- r }}
		done := make(chan error, 1)
		go func() { done <- s.Serve(ctx, l) }()
		nc, err := net.Dial("tcp", l.Addr().String())
		check(t, err)
		c := rdmap.Client(nc, pingConfig(rdmap.CRCOn))
		if err := c.Handshake(t.Context()); err != nil && limit == 0 { // otherwise that may be too late by now
			t.Fatal(err)
		}
		if limit == 0 {
			cancel()
		}
		if r := <-result; r.Err == nil {
			t.Error("a silent connection ended well")
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		c.Abort(nil)
	}
}

func TestDialFails(t *testing.T) {
	// Not a port that was free before: another process may have it by now.
	if _, err := dialPing(t.Context(), "127.0.0.1:1", rdmap.CRCOn, 64, 1); err == nil {
		t.Error("connected to nobody")
	}
}

func is(target error) func(error) bool { return func(err error) bool { return errors.Is(err, target) } }

func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func infos(list ...pingInfo) (out [][]byte) {
	for _, i := range list {
		out = append(out, i.Append(nil))
	}
	return out
}
