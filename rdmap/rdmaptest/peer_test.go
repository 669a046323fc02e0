package rdmaptest_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
)

func TestPeers(t *testing.T) {
	a, b := rdmaptest.Pipe()
	type result struct {
		p   *rdmaptest.Peer
		err error
	}
	ch := make(chan result, 1)
	go func() {
		p, _, err := rdmaptest.Respond(b, &mpa.Config{}, []byte("hi"))
		ch <- result{p, err}
	}()
	x, neg, err := rdmaptest.Initiate(a, &mpa.Config{})
	if err != nil || string(neg.PrivateData) != "hi" || !neg.CRC {
		t.Fatal(neg, err)
	}
	y := <-ch
	if y.err != nil {
		t.Fatal(y.err)
	}
	for _, n := range []int{0, 1, 100, 60000} {
		want := bytes.Repeat([]byte{7}, n)
		go x.Send(want)
		if got, err := y.p.Next(); !bytes.Equal(got, want) || err != nil {
			t.Fatalf("%d octets, %v", len(got), err)
		}
	}
	a.Close()
	if _, err := y.p.Next(); err != io.EOF {
		t.Fatal(err)
	}
}
