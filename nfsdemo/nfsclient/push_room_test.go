package nfsclient_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/internal/pushwrite"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/transport/push"
)

// A host that has its share of the logs gets no other: what its next client writes is written by
// WRITE, and why is told. Those that have a log continue.
func TestPushNoRoom(t *testing.T) {
	w := newPushWorld(t, func(c *pushwrite.Config) { c.Limits.ClientLogs = 1 })
	data := testData(10_000)
	for _, tt := range []struct {
		log    string
		pushed int64
		why    error
	}{{"mine", 10_000, nil}, {"another", 0, push.StatusFull}, {"third", 0, push.StatusFull}} {
		c := mustDial(t, w.url, new(owner).config(func(c *nfsclient.Config) { c.Push.Log = tt.log }))
		n := made(t, c, tt.log)
		r, err := c.PushFrom(t.Context(), n, plain{data}, 10_000, nil)
		if err != nil || r.Size != 10_000 || r.Pushed != tt.pushed || !errors.Is(r.Why, tt.why) {
			t.Errorf("%s: %+v, %v", tt.log, r, err)
		}
		if !bytes.Equal(content(t, c, n), data) {
			t.Errorf("%s: content differs", tt.log)
		}
	}
}

// The server goes away in the middle, and the client does not connect again: the copy ends with an
// error, as one by WRITE does, instead of waiting forever.
func TestPushServerGone(t *testing.T) {
	w := newPushWorld(t, nil)
	const size = 200_000
	c := mustDial(t, w.url, new(owner).config(func(c *nfsclient.Config) { c.Reconnect = 0 }))
	n := made(t, c, "file")
	src := &tripped{m: testData(size), at: size / 2, do: w.stop}
	r, err := c.PushFrom(t.Context(), n, src, size, nil)
	if err == nil || r.Size == size || t.Context().Err() != nil {
		t.Errorf("%+v, %v", r, err)
	}
}
