package rdmap

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"math/bits"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/rdmap/internal/enginetest"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestHalfOpenOptions: whatever a side asks for, it waits for the frame of the other side exactly as long
// as Config says, whether half a frame arrives or none.
func TestHalfOpenOptions(t *testing.T) {
	const own = 3 * time.Second
	synctest.Test(t, func(t *testing.T) {
		options(func(o option) {
			for bits := range 8 {
				initiator, limited, half := bits&1 != 0, bits&2 != 0, bits&4 != 0
				cx, cy := new(Config), new(Config)
				o.set(cx, cy)
				side, cfg, want, frame := Server, cy, DefaultRequestTimeout, reqKey
				if initiator {
					side, cfg, want, frame = Client, cx, DefaultReplyTimeout, repKey
				}
				if limited {
					cfg.HandshakeTimeout, want = own, own
				}
				a, b := rdmaptest.Pipe()
				c := side(a, cfg)
				start := time.Now()
				if half {
					go func() { // as slowly as possible
						for i, octet := range enginetest.Unhex(t, frame) {
							if _, err := b.Write([]byte{octet}); err != nil || i == 14 {
								return
							}
							time.Sleep(want / 16)
						}
					}()
				}
				err := c.Handshake(t.Context())
				<-c.Done()
				if d := time.Since(start); d != want || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v, initiator %v, half %v: %v after %v, want %v", o, initiator, half, err, d, want)
				}
				b.Close()
				synctest.Wait()
			}
		})
	})
}

// TestRTROnWire looks at what two engines exchange: Request and Reply carry A, the Reply offers options
// of the Request, and the initiator's first FPDU is the only RTR (RFC 6581 Section 9.2).
func TestRTROnWire(t *testing.T) {
	t.Parallel()
	rtrs := map[mpa.RTR]string{
		mpa.RTRWrite: "c140" + "00000000" + "0000000000000000",
		mpa.RTRRead: "4141" + "00000000" + "00000001" + "00000001" + "00000000" +
			"00000000" + "0000000000000000" + "00000000" + "00000000" + "0000000000000000",
		mpa.RTRSend: "4143" + "00000000" + "00000000" + "00000001" + "00000000",
	}
	for can := mpa.RTR(1); can < 8; can++ {
		for _, takes := range []mpa.RTR{mpa.RTRWrite, mpa.RTRRead, mpa.RTRSend, 7} {
			both := can & takes
			if both == 0 {
				continue // TestNoMatchingRTR
			}
			a, b := rdmaptest.Pipe()
			r := &rdmaptest.Record{Conn: a}
			x, y := connect(t, r, b, &Config{PeerToPeer: true, RTR: can}, &Config{RTR: takes})
			if err := x.Send(t.Context(), []byte("x")); err != nil {
				t.Fatal(err)
			}
			if err := y.Send(t.Context(), []byte("y")); err != nil {
				t.Fatal(err)
			}
			for _, c := range []*Conn{y, x} {
				if _, err := c.Recv(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			req, n, err := mpa.ParseRequest(r.Out())
			if err != nil || !req.Word.PeerToPeer || req.Word.RTR != can {
				t.Fatalf("%v: Request %+v, %v", can, req.Word, err)
			}
			rep, _, err := mpa.ParseReply(r.In())
			if err != nil || !rep.Word.PeerToPeer || rep.Word.RTR&^both != 0 || rep.Word.RTR == 0 {
				t.Fatalf("%v of %v: Reply %+v, %v", can, takes, rep.Word, err)
			}
			want := both & mpa.RTRSend // the first of Write, Read, Send
			for _, k := range []mpa.RTR{mpa.RTRRead, mpa.RTRWrite} {
				if both&k != 0 {
					want = k
				}
			}
			if bits.OnesCount8(uint8(want)) != 1 {
				t.Fatal(want)
			}
			out := r.Out()[n:]
			rtr := enginetest.FPDU(enginetest.Unhex(t, rtrs[want]))
			rest, ok := bytes.CutPrefix(out, rtr)
			if !ok {
				t.Errorf("%v of %v: first %x, want %x", can, takes, out, rtr)
			}
			if u := enginetest.ULPDU(t, rest); string(u[18:]) != "x" || len(rest) != mpa.FPDULen(len(u)) {
				t.Errorf("%v of %v: after the RTR %x", can, takes, rest)
			}
		}
	}
}

// TestDepthsClamped: each side reduces its depths to what the other offers (RFC 6581 Section 9.1), and no
// more requests than that are ever in flight.
func TestDepthsClamped(t *testing.T) {
	depths := []int{-1, 1, 5, 64, 0x3ffe, 0x3fff, 1 << 20}
	known := func(v int) int { return min(max(v, 0), 0x3ffe) }
	for _, ird := range depths {
		for _, ord := range depths {
			a, b := rdmaptest.Pipe()
			x, y := connect(t, a, b, &Config{IRD: ird, ORD: ord}, &Config{IRD: 5, ORD: 7})
			sx, sy := x.ConnectionState(), y.ConnectionState()
			if sx.IRD != known(ird) || sy.ORD != min(7, known(ird)) || sy.IRD != min(5, known(ord)) || sx.ORD != min(5, known(ord)) {
				t.Errorf("IRD %d, ORD %d: %+v\n%+v", ird, ord, sx, sy)
			}
		}
	}
	a, b := rdmaptest.Pipe()
	x := Client(a, &Config{ORD: 9})
	go x.Handshake(t.Context())
	p, _, err := rdmaptest.Respond(b, &mpa.Config{IRD: 3, ORD: 8}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for !x.snd.State().Up() {
		time.Sleep(time.Millisecond)
	}
	reg := mustRegister(t, x, 16, region.ReadSink)
	for range 10 {
		if err := x.Post([]verbs.WR{{Op: verbs.OpReadRequest, Sink: reg.STag(), Len: 16}}); err != nil {
			t.Fatal(err)
		}
	}
	for out, answered := 0, 0; answered < 10; answered++ {
		for ; out < min(answered+3, 10); out++ {
			if u, err := p.Next(); err != nil || u[1] != 0x41 {
				t.Fatalf("%x, %v", u, err)
			}
		}
		n := x.Stats().ReadsOut
		for i := 0; n < uint64(out) && i < 10_000; i++ { // counted after the peer may have read them
			time.Sleep(time.Millisecond)
			n = x.Stats().ReadsOut
		}
		if n != uint64(out) {
			t.Errorf("%d Reads sent, %d answered, ORD is 3", n, answered)
		}
		if err := p.Send(enginetest.ReadResponse(t, reg.STag(), 0)); err != nil {
			t.Fatal(err)
		}
	}
	x.Abort(nil)
	<-x.Done()
	b.Close()
}

// TestPrivateDataLimits: private data of every length that a frame has room for, on
// both revisions; one octet more is refused before anything is sent.
func TestPrivateDataLimits(t *testing.T) {
	for _, rev := range []int{1, 2} {
		most := 512
		if rev == 2 {
			most -= mpa.EnhancedLen
		}
		for n := 0; n <= most+1; n += 1 + n%9*4 {
			privateData(t, rev, n, n <= most)
		}
		for n := most - 1; n <= most+1; n++ {
			privateData(t, rev, n, n <= most)
		}
	}
}

func privateData(t *testing.T, rev, n int, fits bool) {
	t.Helper()
	a, b := rdmaptest.Pipe()
	data := enginetest.Pattern(n)
	x := Client(a, &Config{Revision: rev, PrivateData: data})
	y := Server(b, &Config{Accept: func(r *mpa.Request) ([]byte, error) {
		if !bytes.Equal(r.PrivateData, data) {
			t.Errorf("revision %d, %d octets: Accept sees %x", rev, n, r.PrivateData)
		}
		return data, nil
	}})
	errs := make(chan error, 1)
	go func() { errs <- y.Handshake(t.Context()) }()
	err := x.Handshake(t.Context())
	other := <-errs
	if fits != (err == nil) || fits != (other == nil) {
		t.Errorf("revision %d, %d octets: %v, %v", rev, n, err, other)
	}
	if fits && (!bytes.Equal(x.PeerPrivateData(), data) || !bytes.Equal(y.PeerPrivateData(), data)) {
		t.Errorf("revision %d, %d octets: the private data differ", rev, n)
	}
	x.Abort(nil)
	y.Abort(nil)
	<-x.Done()
	<-y.Done()
}

// TestCapabilityBlock: the block of our extensions is at the end of the private data, after the data of
// RFC 8797, which Linux expects at offset 0. Anything that is not exactly such a block belongs to the
// upper layer, and unknown features are ignored.
func TestCapabilityBlock(t *testing.T) {
	a, b := rdmaptest.Pipe()
	r := &rdmaptest.Record{Conn: a}
	_, y := connect(t, r, b, &Config{PrivateData: []byte("ulp"), Extensions: verbs.ExtCommit}, nil)
	if y.PeerPrivateData() == nil || string(y.PeerPrivateData()) != "ulp" || !y.ConnectionState().StagPeer {
		t.Errorf("%q, %+v", y.PeerPrivateData(), y.ConnectionState())
	}
	const block = "73746167" + "010c" + "fd00"
	for _, got := range []struct {
		octets []byte
		want   string
	}{
		{r.Out(), hex.EncodeToString([]byte("ulp")) + block + "00000009"},
		{r.In(), block + "00000001"},
	} {
		if !bytes.HasSuffix(got.octets, enginetest.Unhex(t, got.want)) {
			t.Errorf("frame %x, want ... %s", got.octets, got.want)
		}
	}
	for _, tt := range []struct {
		name, block string
		peer        bool
		mulpdu      int
	}{
		{"ours", "73746167" + "010c" + "0400" + "00000000", true, 1024},
		{"unknown features", "73746167" + "010c" + "0400" + "fffffff0", true, 1024},
		{"smaller than any ULPDU", "73746167" + "010c" + "0001" + "00000000", true, 128},
		{"larger than any ULPDU", "73746167" + "010c" + "ffff" + "00000000", true, StagMULPDU},
		{"no largest ULPDU", "73746167" + "010c" + "0000" + "00000000", false, 0},
		{"another magic", "73746168" + "010c" + "0400" + "00000000", false, 0},
		{"another version", "73746167" + "020c" + "0400" + "00000000", false, 0},
		{"another length", "73746167" + "010d" + "0400" + "00000000", false, 0},
		{"in front", "73746167" + "010c" + "0400" + "00000000" + "aa", false, 0},
		{"cut", "746167" + "010c" + "0400" + "00000000", false, 0},
	} {
		a, b := rdmaptest.Pipe()
		y := Server(b, nil)
		errs := make(chan error, 1)
		go func() { errs <- y.Handshake(t.Context()) }()
		data := append([]byte("ulp"), enginetest.Unhex(t, tt.block)...)
		_, neg, err := rdmaptest.Initiate(a, &mpa.Config{IRD: 1, ORD: 1, PrivateData: data})
		if err := errors.Join(err, <-errs); err != nil {
			t.Fatal(err)
		}
		s := y.ConnectionState()
		if s.StagPeer != tt.peer || tt.peer && s.MULPDU != tt.mulpdu {
			t.Errorf("%s: %+v", tt.name, s)
		}
		if want := tt.peer; want != (string(y.PeerPrivateData()) == "ulp") || want != (len(neg.PrivateData) > 0) {
			t.Errorf("%s: private data %x, answered by %x", tt.name, y.PeerPrivateData(), neg.PrivateData)
		}
		a.Close()
		y.Abort(nil)
		<-y.Done()
	}
}
