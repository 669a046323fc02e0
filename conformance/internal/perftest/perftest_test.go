package perftest_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stag-rdma/stag/conformance/internal/perftest"
	"github.com/stag-rdma/stag/internal/decode"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/capture"
	"github.com/stag-rdma/stag/rdmap/ddp"
)

// serve answers n tests on l and sends the results.
func serve(t *testing.T, l net.Listener, s *perftest.Server) <-chan perftest.Result {
	t.Helper()
	results := make(chan perftest.Result, s.Tests)
	s.Report = func(r perftest.Result) { results <- r }
	done := make(chan error, 1)
	go func() { done <- s.Serve(t.Context(), l) }()
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return results
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

var tests = []perftest.Test{perftest.WriteBW, perftest.ReadBW, perftest.SendLat}

func TestTests(t *testing.T) {
	for _, test := range tests {
		for _, crc := range []rdmap.CRCMode{rdmap.CRCOn, rdmap.CRCOff} {
			for _, size := range []int{1, 4097, perftest.MaxSize} {
				t.Run(fmt.Sprintf("%v/crc=%d/%d", test, crc, size), func(t *testing.T) {
					l := listen(t)
					results := serve(t, l, &perftest.Server{CRC: rdmap.CRCOff, Tests: 1})
					state, err := perftest.Dial(t.Context(), l.Addr().String(), &perftest.Options{Test: test, Size: size, Count: 7, CRC: crc})
					r := <-results
					if err := errors.Join(err, r.Err); err != nil || state.CRC != (crc == rdmap.CRCOn) || r.State.CRC != state.CRC {
						t.Errorf("%v; %+v", err, r)
					}
					var want perftest.Result
					switch test {
					case perftest.SendLat:
						want.Sends = 7
					case perftest.ReadBW:
						want.Written, want.Read = uint64(size), uint64(7*size) // the client fills the buffer
					case perftest.WriteBW:
						want.Written = uint64(7 * size)
					}
					if r.Sends != want.Sends || r.Written != want.Written || r.Read != want.Read {
						t.Errorf("%+v", r)
					}
				})
			}
		}
	}
}

// message is one message of a control connection.
type message struct {
	dir decode.Dir
	len int
}

// controls returns the conversations of the control connections of a capture: every
// other connection's.
func controls(t *testing.T, b []byte) map[int][]message {
	t.Helper()
	all := make(map[int][]message)
	for ev, err := range decode.Events(bytes.NewReader(b), &decode.Options{ULP: decode.ULPOpaque}) {
		if err != nil {
			t.Fatal(err)
		}
		if m := ev.Message; m != nil && m.QN == ddp.QNSend && ev.Conn.ID%2 == 1 {
			all[ev.Conn.ID] = append(all[ev.Conn.ID], message{ev.Dir, len(m.Payload)})
		}
	}
	return all
}

// TestConversation: our control connections say what those of perftest say.
func TestConversation(t *testing.T) {
	b, err := os.ReadFile("../../testdata/pcaps/e-perftest.pcap")
	if err != nil {
		t.Fatal(err)
	}
	theirs := controls(t, b)
	var out bytes.Buffer
	w, err := capture.NewWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	l := listen(t)
	results := serve(t, w.TapListener(l), &perftest.Server{Tests: len(tests)})
	for _, test := range tests {
		_, err := perftest.Dial(t.Context(), l.Addr().String(), &perftest.Options{Test: test, Size: 512, Count: 5})
		if r := <-results; err != nil || r.Err != nil {
			t.Fatal(err, r.Err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	ours := controls(t, out.Bytes())
	for test, id := range map[perftest.Test]int{perftest.WriteBW: 1, perftest.SendLat: 5, perftest.ReadBW: 7} {
		if got := ours[1+2*int(test)]; !slices.Equal(got, theirs[id]) || len(got) < 20 {
			t.Errorf("%v: said %v\nperftest says %v", test, got, theirs[id])
		}
	}
}

// TestDestGolden: the server's buffer in e-perftest.pcap, into which the client then
// writes.
func TestDestGolden(t *testing.T) {
	b, err := hex.DecodeString("00000000000000010000000400022" + "89b37bb6e0054560000" + "0000563ebf0ef000" +
		"525400123456" + "000000000000000000000000000000000000")
	if err != nil {
		t.Fatal(err)
	}
	d, err := perftest.ParseDest(b)
	if want := (perftest.Dest{OutReads: 1, QPN: 4, RKey: 0x37bb6e00, VAddr: 0x563ebf0ef000}); err != nil || d != want {
		t.Errorf("%+v, %v, want %+v", d, err, want)
	}
	for n := range len(b) {
		if _, err := perftest.ParseDest(b[:n]); !errors.Is(err, perftest.ErrProtocol) {
			t.Errorf("%d octets: %v", n, err)
		}
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []perftest.Options{
		{Size: 0, Count: 1}, {Size: perftest.MaxSize + 1, Count: 1}, {Size: 1}, {Test: 3, Size: 1, Count: 1},
	} {
		if _, err := perftest.Dial(t.Context(), "127.0.0.1:1", &o); !errors.Is(err, perftest.ErrOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// control returns the control connection of a client that does what a test tells it to.
func control(t *testing.T, l net.Listener) *rdmap.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c := rdmap.Client(nc, &rdmap.Config{Startup: rdmap.Startup{Plain: true}})
	if err := c.Handshake(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Abort(nil) })
	return c
}

// greet exchanges the messages before the second connection.
func greet(t *testing.T, c *rdmap.Conn) {
	t.Helper()
	for _, n := range []int{16, 4, 4, 2, 56} {
		if err := c.Send(t.Context(), make([]byte, n)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Recv(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestServerRefuses: clients that do something else; the next one is served all the same.
func TestServerRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(c *rdmap.Conn) error
		want error
	}{
		{"three octets", func(c *rdmap.Conn) error { return c.Send(t.Context(), make([]byte, 3)) }, perftest.ErrProtocol},
		{"nothing", (*rdmap.Conn).Close, io.ErrUnexpectedEOF},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := listen(t)
			results := serve(t, l, &perftest.Server{Tests: 2})
			if err := tt.do(control(t, l)); err != nil {
				t.Fatal(err)
			}
			if r := <-results; !errors.Is(r.Err, tt.want) {
				t.Errorf("%v, want %v", r.Err, tt.want)
			}
			_, err := perftest.Dial(t.Context(), l.Addr().String(), &perftest.Options{Test: perftest.ReadBW, Size: 1, Count: 1})
			if r := <-results; err != nil || r.Err != nil {
				t.Error(err, r.Err)
			}
		})
	}
}

// TestServeEnds: the end of the context ends a silent test, also one whose second
// connection does not come, and so does the time limit.
func TestServeEnds(t *testing.T) {
	for _, tt := range []struct {
		greets bool
		limit  time.Duration
	}{{false, 0}, {true, 0}, {false, time.Second}} {
		l := listen(t)
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan perftest.Result, 1)
		s := &perftest.Server{Timeout: tt.limit, Report: func(r perftest.Result) { result <- r }}
		done := make(chan error, 1)
		go func() { done <- s.Serve(ctx, l) }()
		c := control(t, l)
		if tt.greets {
			greet(t, c)
		}
		if tt.limit == 0 {
			cancel()
		}
		if r := <-result; r.Err == nil {
			t.Errorf("%+v: a silent test ended well", tt)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}

// TestClientRefuses: a server that answers with other lengths.
func TestClientRefuses(t *testing.T) {
	l := listen(t)
	done := make(chan error, 1)
	go func() {
		nc, err := l.Accept()
		if err != nil {
			done <- err
			return
		}
		c := rdmap.Server(nc, &rdmap.Config{Startup: rdmap.Startup{Plain: true}})
		defer c.Abort(nil)
		err = c.Handshake(t.Context())
		if err == nil {
			_, err = c.Recv(t.Context())
		}
		if err == nil {
			err = c.Send(t.Context(), make([]byte, 15))
		}
		<-c.Done()
		done <- err
	}()
	_, err := perftest.Dial(t.Context(), l.Addr().String(), &perftest.Options{Size: 1, Count: 1})
	if !errors.Is(err, perftest.ErrProtocol) {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	l.Close()
}

// TestClientLeaves: a client that leaves before its second connection has come ends its test;
// the connection that comes then is the next client's, whether or not the end of the one
// before has been noticed by then.
func TestClientLeaves(t *testing.T) {
	for _, waits := range []bool{true, false} {
		l := listen(t)
		results := serve(t, l, &perftest.Server{Tests: 2})
		c := control(t, l)
		greet(t, c)
		if waits {
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			if r := <-results; !errors.Is(r.Err, io.ErrUnexpectedEOF) {
				t.Errorf("%v, want an unexpected end", r.Err)
			}
		}
		next := control(t, l)
		if !waits { // the server has taken next for c's second connection
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			if r := <-results; !errors.Is(r.Err, io.ErrUnexpectedEOF) {
				t.Errorf("%v, want an unexpected end", r.Err)
			}
		}
		greet(t, next)
		if err := next.Close(); err != nil {
			t.Fatal(err)
		}
		if r := <-results; !errors.Is(r.Err, io.ErrUnexpectedEOF) {
			t.Errorf("the next client: %v, want an unexpected end", r.Err)
		}
	}
}
