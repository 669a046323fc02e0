package server_test

import (
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/internal/once"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/transport/rpc"
)

// TestSettleSize: a file of 4 octets whose size a call changes, and to which others write
// meanwhile. What they wrote behind the change is not cut off by doing it a second time.
func TestSettleSize(t *testing.T) {
	for _, x := range []struct {
		name  string
		ask   uint64
		done  bool   // it was executed
		write string // by others, behind that
		want  once.Outcome
	}{
		{"cut", 1, true, "", once.Done},
		{"cut, written to", 1, true, "abc", once.Done},
		{"cut, written to up to where it was", 1, true, "same", once.Unknown},
		{"cut, written to behind that", 1, true, "behind", once.Unknown},
		{"not cut", 1, false, "", once.NotDone},
		{"not cut, written to", 1, false, "sam", once.Unknown}, // as the third, from here
		{"not cut, written to behind the end", 1, false, "behind", once.Unknown},
		{"extended", 9, true, "", once.Done},
		{"extended, written to", 9, true, "within", once.Done},
		{"extended, written to behind the end", 9, true, "behind the end", once.Unknown},
		{"not extended", 9, false, "", once.NotDone},
		{"not extended, written to", 9, false, "within", once.NotDone},
		{"not extended, written to behind the end", 9, false, "behind the end", once.Unknown},
	} {
		t.Run(x.name, func(t *testing.T) {
			onBoth(t, func(p *peer) {
				f := p.create(p.root, "f", 0o644)
				p.write(f, 0, "four")
				was := p.attr(f).Ctime
				in := p.intend(nfs3.ProcSetAttr, &nfs3.SetAttrArgs{Handle: f, Attr: sized(nfs3.SetAttr{}, x.ask)})
				if x.done {
					p.set(f, sized(nfs3.SetAttr{}, x.ask))
				}
				for again := x.write != ""; again; again = p.attr(f).Ctime == was { // clocks of file systems are coarse
					p.write(f, 0, x.write)
				}
				before := p.attr(f).Size
				p.settles(in, x.want)
				if a := p.attr(f); a.Size != before {
					t.Errorf("in the end it has %d octets of %d", a.Size, before)
				}
			})
		})
	}
}

// TestSettleSizeLost: a size that it was asked to keep, and that a loss of power has taken back.
func TestSettleSizeLost(t *testing.T) {
	onBoth(t, func(p *peer) {
		f := p.create(p.root, "f", 0o644)
		p.write(f, 0, "four")
		in := p.intend(nfs3.ProcSetAttr, &nfs3.SetAttrArgs{Handle: f, Attr: sized(nfs3.SetAttr{}, 4)})
		p.settles(in, once.NotDone)
		p.set(f, sized(nfs3.SetAttr{}, 2))
		p.settles(in, once.NotDone)
	})
}

// TestBeforeSize: the size by which a call is described is durable, also when others write
// between the COMMIT and the look at it; if they do not let go, the call has to wait.
func TestBeforeSize(t *testing.T) {
	for _, writes := range []int{0, 1, 3, sizeTries} {
		fs := &forgetful{FS: mem.New(nil), size: make(map[uint64]uint64)}
		p := newPeer(t, newServer(t, fs), sys(0, 0))
		f := p.create(p.root, "f", 0o644)
		p.write(f, 0, "four")
		n, err := fs.FS.Resolve(f[handleHead:])
		if err != nil {
			t.Fatal(err)
		}
		left := writes
		fs.behind = func() {
			if left--; left >= 0 {
				_, _ = n.Write([]byte("x"), p.attr(f).Size, nfs3.Unstable)
			}
		}
		resp := new(rpc.Response)
		args := &nfs3.SetAttrArgs{Handle: f, Attr: sized(nfs3.SetAttr{}, 1)}
		state, ok := p.srv.Before(t.Context(), p.request(nfs3.ProcSetAttr, args), resp)
		if ok != (writes < sizeTries) {
			t.Errorf("%d writes: described %v, %x", writes, ok, resp.Results)
		}
		var w witness
		if ok && (!w.parse(state) || w.attr.Attr.Size != fs.size[w.attr.Attr.FileID] || w.attr.Attr.Size != uint64(4+writes)) {
			t.Errorf("%d writes: described with %d octets, of which %d are durable", writes, w.attr.Attr.Size, fs.size[w.attr.Attr.FileID])
		}
	}
}
