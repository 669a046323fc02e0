package rdmaptest_test

import (
	"fmt"
	"testing"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
)

// TestSegments: headers are right until they are changed, each queue is counted separately, and segments arrive
// as they were sent.
func TestSegments(t *testing.T) {
	a, b := rdmaptest.Pipe()
	responder := make(chan *rdmaptest.Peer, 1)
	go func() {
		p, _, err := rdmaptest.Respond(b, &mpa.Config{Markers: true, WantMarkers: true}, nil)
		if err != nil {
			t.Error(err)
		}
		responder <- p
	}()
	x, _, err := rdmaptest.Initiate(a, &mpa.Config{Markers: true, WantMarkers: true})
	if err != nil {
		t.Fatal(err)
	}
	y := <-responder
	for i, want := range []struct {
		s    ddp.Segment
		text string
	}{
		{x.Untagged(3, 0), "untagged last control=0x43 ulp=00000000 qn=0 msn=1 mo=0"},
		{x.Untagged(5, 0), "untagged last control=0x45 ulp=00000000 qn=0 msn=2 mo=0"},
		{x.Untagged(1, 1), "untagged last control=0x41 ulp=00000000 qn=1 msn=1 mo=0"},
		{x.Tagged(0, 0x11223344, 1<<40), "tagged last control=0x40 stag=11223344 to=0x10000000000"},
		{x.Untagged(4, 0), "untagged last control=0x44 ulp=00000000 qn=0 msn=3 mo=0"},
	} {
		payload := fmt.Sprint("payload ", i)
		if err := x.SendSegment(want.s, []byte(payload)); err != nil {
			t.Fatal(err)
		}
		got, p, err := y.NextSegment()
		if err != nil || got.String() != want.text || string(p) != payload || got.DV != ddp.Version {
			t.Errorf("%v %q %v, want %v %q", &got, p, err, want.text, payload)
		}
	}
	if err := x.Send([]byte("short")); err != nil {
		t.Fatal(err)
	}
	if s, p, err := y.NextSegment(); err != nil || s != (ddp.Segment{}) || string(p) != "short" {
		t.Errorf("%v %q %v", &s, p, err)
	}
}
