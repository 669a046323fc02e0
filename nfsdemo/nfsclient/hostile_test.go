package nfsclient_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/backend/backendtest"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// dialHostile returns a client of s.
func dialHostile(t *testing.T, s *backendtest.Liar, rdma bool, cfg *nfsclient.Config) *nfsclient.Client {
	t.Helper()
	u := must(nfsclient.ParseURL(s.Listen(t, rdma)))(t)
	c := must(nfsclient.Dial(t.Context(), u, cfg))(t)
	t.Cleanup(func() { c.Close() })
	return c
}

// below is the directory of a hostile server that tests remove.
func below(t *testing.T, c *nfsclient.Client) *nfsclient.Node {
	t.Helper()
	n := must(c.Child(t.Context(), c.Root(), "dir"))(t)
	return n
}

// list goes through a directory, and keeps nothing.
func list(ctx context.Context, c *nfsclient.Client, dir *nfsclient.Node) (err error) {
	for _, e := range c.Entries(ctx, dir) {
		err = e
	}
	return err
}

// TestHostileDirectories: no directory of a server keeps a client listing forever, or takes its memory.
func TestHostileDirectories(t *testing.T) {
	one := func(name string, cookie uint64) []backendtest.Entry {
		return []backendtest.Entry{{Name: name, Cookie: cookie}}
	}
	many := func(c uint64, name func(c uint64) string) []backendtest.Entry {
		all := make([]backendtest.Entry, 500)
		for i := range all {
			k := c + 1 + uint64(i)
			all[i] = backendtest.Entry{Name: name(k), Cookie: k}
		}
		return all
	}
	for _, x := range []struct {
		name         string
		page         func(cookie uint64) []backendtest.Entry
		list, remove error
	}{
		{
			"two cookies in turn", func(c uint64) []backendtest.Entry { return one("a", 1+c%2) },
			nfsclient.ErrDirLoop, nfsclient.ErrDirLoop,
		},
		{"back to an early one", func(c uint64) []backendtest.Entry {
			if c == 40 {
				return one("a", 17)
			}
			return one("a", c+1)
		}, nfsclient.ErrDirLoop, nfsclient.ErrDirLoop},
		{
			"endless", func(c uint64) []backendtest.Entry { return many(c, func(uint64) string { return "." }) }, // costs the client nothing
			nfsclient.ErrDirEndless, nfsclient.ErrDirEndless,
		},
		{
			"endless, with names", func(c uint64) []backendtest.Entry {
				return many(c, func(c uint64) string { return fmt.Sprintf("%020d", c) })
			},
			nfsclient.ErrDirEndless, nfsclient.ErrTreeEndless,
		},
		{"nothing", func(uint64) []backendtest.Entry { return nil }, nfsclient.ErrNoProgress, nfsclient.ErrNoProgress},
	} {
		for _, plus := range []bool{true, false} {
			if plus != (x.remove == nfsclient.ErrTreeEndless) && x.list == nfsclient.ErrDirEndless {
				continue // a million entries are many: names with attributes, or one LOOKUP for each, and dots without
			}
			if backendtest.Race && x.list == nfsclient.ErrDirEndless {
				continue
			}
			t.Run(fmt.Sprintf("%s plus=%v", x.name, plus), func(t *testing.T) {
				s := &backendtest.Liar{NoPlus: !plus, Page: func(c uint64) ([]backendtest.Entry, bool) { return x.page(c), false }}
				c := dialHostile(t, s, false, &nfsclient.Config{MaxTree: 10000})
				backendtest.Live(t, 64<<20, func() {
					if err := list(t.Context(), c, c.Root()); !errors.Is(err, x.list) {
						t.Errorf("Entries: %v, want %v", err, x.list)
					}
				})
				backendtest.Live(t, 64<<20, func() {
					if _, err := c.RemoveAll(t.Context(), c.Root(), below(t, c)); !errors.Is(err, x.remove) {
						t.Errorf("RemoveAll: %v, want %v", err, x.remove)
					}
				})
			})
		}
	}
}

// TestHostileReadDir: a directory that ReadDir cannot collect in 64 MiB is refused.
func TestHostileReadDir(t *testing.T) {
	s := &backendtest.Liar{Page: func(c uint64) ([]backendtest.Entry, bool) {
		all := make([]backendtest.Entry, 100)
		for i := range all {
			k := c + 1 + uint64(i)
			all[i] = backendtest.Entry{Name: fmt.Sprintf("%0250d", k), Cookie: k}
		}
		return all, false
	}}
	c := dialHostile(t, s, false, nil)
	backendtest.Live(t, 192<<20, func() {
		if _, err := c.ReadDir(t.Context(), c.Root()); !errors.Is(err, nfsclient.ErrDirLarge) {
			t.Error(err)
		}
	})
}

// cutting is a Caller that answers the READs of the second block late: with an error, or with less than a block
// and the end of the file, though later blocks were answered.
type cutting struct {
	rpc.Caller
	later chan struct{} // closed when a later block was answered
	fails bool
}

func (c *cutting) Do(ctx context.Context, call *rpc.Call, reply *rpc.Reply) error {
	if call.Prog != nfs3.Program || nfs3.Proc(call.Proc) != nfs3.ProcRead {
		return c.Caller.Do(ctx, call, reply)
	}
	var a nfs3.ReadArgs
	d := xdr.NewDecoder(call.Args)
	if err := xdr.Decode(&d, &a).Err(); err != nil {
		return err
	}
	res := nfs3.ReadRes{Data: make([]byte, a.Count), Count: a.Count}
	switch a.Offset {
	case 4096:
		<-c.later
		time.Sleep(10 * time.Millisecond) // until its data wait for their turn
		if c.fails {
			return errors.New("this READ fails")
		}
		res = nfs3.ReadRes{Data: make([]byte, 100), Count: 100, EOF: true}
	case 8192:
		defer close(c.later)
	}
	reply.Results, reply.Item = xdr.AppendUint32(xdr.Encode(nil, res.Head()), uint32(len(res.Data))), res.Data
	return nil
}

// TestHostileCut: data that wait for their turn in a pipe do not wait for octets that never come, because their
// READ has failed, or because the file was truncated meanwhile.
func TestHostileCut(t *testing.T) {
	for _, fails := range []bool{true, false} {
		t.Run(fmt.Sprintf("fails=%v", fails), func(t *testing.T) {
			s := &backendtest.Liar{Page: func(uint64) ([]backendtest.Entry, bool) { return nil, true }}
			u := must(nfsclient.ParseURL(s.Listen(t, false)))(t)
			stream := must(transport.DialStream(t.Context(), "tcp", u.Addr(), nil))(t)
			c, err := nfsclient.New(t.Context(), &cutting{Caller: stream, later: make(chan struct{}), fails: fails}, []byte{1}, "/", &nfsclient.Config{MaxBlock: 4096, InFlight: 3})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			n := &nfsclient.Node{Path: "/file", FH: []byte{2}, Attr: nfs3.Attr{Type: nfs3.TypeReg, Size: 3 * 4096}}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var out bytes.Buffer
			w := nfsclient.NewOrderedWriter(ctx, &out, 0)
			defer w.Close()
			got, err := c.ReadTo(ctx, n, w, nil)
			if fails && (err == nil || ctx.Err() != nil) || !fails && (err != nil || got != 4196 || out.Len() != 4196) {
				t.Errorf("%d octets of %d: %v", out.Len(), got, err)
			}
		})
	}
}

// TestHostileCrumbs: a server that moves one octet with each READ and WRITE does not keep a copy going without end.
func TestHostileCrumbs(t *testing.T) {
	s := &backendtest.Liar{Page: func(uint64) ([]backendtest.Entry, bool) { return []backendtest.Entry{{Name: "f", Cookie: 1}}, true }, Crumbs: true}
	c := dialHostile(t, s, false, nil)
	n := must(c.Child(t.Context(), c.Root(), "f"))(t)
	buf := make([]byte, 100_000)
	for what, move := range map[string]func() error{
		"ReadTo": func() error { _, err := c.ReadTo(t.Context(), n, nfsclient.Memory(buf), nil); return err },
		"ReadAt": func() error { _, err := c.ReadAt(t.Context(), n, buf, 0); return err },
		"WriteFrom": func() error {
			_, err := c.WriteFrom(t.Context(), n, bytes.NewReader(buf), int64(len(buf)), nil)
			return err
		},
		"WriteAt": func() error { _, _, err := c.WriteAt(t.Context(), n, buf, 0, nfs3.FileSync); return err },
	} {
		if err := move(); !errors.Is(err, nfsclient.ErrNoProgress) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
