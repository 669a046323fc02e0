package server_test

import (
	"bytes"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
)

func TestReadWrite(t *testing.T) {
	onBoth(t, func(p *peer) {
		f := p.create(p.root, "f", 0o644)
		w := p.write(f, 0, "hello, world")
		if w.Count != 12 || !w.Wcc.After.Present || w.Wcc.After.Attr.Size != 12 {
			p.Errorf("%+v", w)
		}
		for _, c := range []struct {
			off  uint64
			n    uint32
			want string
			eof  bool
		}{
			{0, 100, "hello, world", true},
			{0, 12, "hello, world", true},
			{0, 5, "hello", false},
			{7, 5, "world", true},
			{7, 4, "worl", false},
			{3, 0, "", false},
			{12, 5, "", true},
			{12, 0, "", true},
			{1 << 40, 5, "", true},
			{^uint64(0), 1<<32 - 1, "", true},
		} {
			r := p.read(f, c.off, c.n)
			if string(r.Data) != c.want || r.EOF != c.eof || int(r.Count) != len(c.want) || r.Attr.Attr.Size != 12 {
				p.Errorf("%d at %d: %q, eof %v, count %d", c.n, c.off, r.Data, r.EOF, r.Count)
			}
		}
		p.write(f, 5<<20, "far")
		if r := p.read(f, 5<<20-2, 10); string(r.Data) != "\x00\x00far" || !r.EOF {
			p.Errorf("%q", r.Data)
		}
		if w := p.write(f, 1<<40, ""); w.Count != 0 || w.Wcc.After.Attr.Size != 5<<20+3 {
			p.Errorf("WRITE of nothing: %+v", w)
		}
	})
}

func TestReadWriteErrors(t *testing.T) {
	onBoth(t, func(p *peer) {
		f := p.create(p.root, "f", 0o600)
		read := func(q *peer, h nfs3.FileHandle, want nfs3.Status) {
			p.Helper()
			nfs[nfs3.ReadRes](q, nfs3.ProcRead, &nfs3.ReadArgs{Handle: h, Count: 1}, want)
		}
		write := func(q *peer, h nfs3.FileHandle, off uint64, count uint32, data string, want nfs3.Status) {
			p.Helper()
			a := nfs3.WriteArgs{Handle: h, Offset: off, Count: count, Data: []byte(data)}
			nfs[nfs3.WriteRes](q, nfs3.ProcWrite, &a, want)
		}
		link := nfs[nfs3.SymlinkRes](p, nfs3.ProcSymlink, &nfs3.SymlinkArgs{Where: at(p.root, "l"), Path: "f"}, nfs3.OK).Handle.Handle
		for _, h := range []nfs3.FileHandle{p.root, link} {
			read(p, h, nfs3.ErrInval)
			write(p, h, 0, 1, "x", nfs3.ErrInval)
			nfs[nfs3.CommitRes](p, nfs3.ProcCommit, &nfs3.CommitArgs{Handle: h}, nfs3.ErrIO)
		}
		write(p, f, 0, 2, "x", nfs3.ErrInval)
		write(p, f, 0, 0, "x", nfs3.ErrInval)
		write(p, f, 1<<63-1, 1, "x", nfs3.ErrFBig)
		write(p, f, ^uint64(0), 1, "x", nfs3.ErrFBig)
		if !p.srv.FirstFS().Info().Owners {
			return // everybody is the owner
		}
		user := p.as(sys(1000, 1000))
		read(user, f, nfs3.ErrAcces)
		write(user, f, 0, 1, "x", nfs3.ErrAcces)
		setattr(p, f, mode(0o711), nfs3.OK)
		read(user, f, nfs3.OK)
		write(user, f, 0, 1, "x", nfs3.ErrAcces)
		// The owner may, whatever the mode says.
		mine := user.create(p.mkdir(p.root, "d", 0o777), "mine", 0)
		write(user, mine, 0, 1, "x", nfs3.OK)
		read(user, mine, nfs3.OK)
	})
}

// TestMaxIO: larger READs are short, larger WRITEs are cut.
func TestMaxIO(t *testing.T) {
	s := newServer(t, mem.New(nil), func(c *server.Config) { c.MaxIO = 8192 })
	p := newPeer(t, s, sys(0, 0))
	f := p.create(p.root, "f", 0o644)
	data := string(bytes.Repeat([]byte("0123456789abcdef"), 1024))
	if w := p.write(f, 0, data); w.Count != 8192 {
		t.Errorf("%d octets written", w.Count)
	}
	p.write(f, 8192, data[8192:])
	if r := p.read(f, 0, 1<<31); r.Count != 8192 || r.EOF || string(r.Data) != data[:8192] {
		t.Errorf("%d octets read, eof %v", r.Count, r.EOF)
	}
	if r := nfs[nfs3.FSInfoRes](p, nfs3.ProcFSInfo, &nfs3.HandleArgs{Handle: p.root}, nfs3.OK); r.RTMax != 8192 || r.WTMax != 8192 || r.DTPref != 8192 {
		t.Errorf("%+v", r)
	}
}

func TestStability(t *testing.T) {
	onBoth(t, func(p *peer) {
		f := p.create(p.root, "f", 0o644)
		var verf nfs3.WriteVerf
		for how := nfs3.Unstable; how <= nfs3.FileSync; how++ {
			r := nfs[nfs3.WriteRes](p, nfs3.ProcWrite, &nfs3.WriteArgs{Handle: f, Count: 1, Data: []byte("x"), Stable: how}, nfs3.OK)
			if r.Committed < how {
				p.Errorf("asked %v, got %v", how, r.Committed)
			}
			verf = r.Verf
		}
		c := nfs[nfs3.CommitRes](p, nfs3.ProcCommit, &nfs3.CommitArgs{Handle: f}, nfs3.OK)
		if c.Verf != verf || verf == (nfs3.WriteVerf{}) {
			p.Errorf("verifiers %x, %x", c.Verf, verf)
		}
	})
}

// TestWcc: "before" is there only when it is true.
func TestWcc(t *testing.T) {
	onBoth(t, func(p *peer) {
		info := p.srv.FirstFS().Info()
		f := p.create(p.root, "f", 0o644)
		before := p.attr(f)
		w := p.write(f, 0, "x")
		if w.Wcc.Before.Present != info.AtomicWcc {
			p.Fatalf("before: %v", w.Wcc.Before.Present)
		}
		if info.AtomicWcc && w.Wcc.Before.Attr != before.Wcc() {
			p.Errorf("%+v, want %+v", w.Wcc.Before.Attr, before.Wcc())
		}
		r := nfs[nfs3.CreateRes](p, nfs3.ProcCreate, &nfs3.CreateArgs{Where: at(p.root, "g")}, nfs3.OK)
		if r.DirWcc.Before.Present != info.AtomicWcc || r.DirWcc.After.Attr != p.attr(p.root) {
			p.Errorf("%+v", r.DirWcc)
		}
		d := p.mkdir(p.root, "d", 0o755)
		l := nfs[nfs3.LinkRes](p, nfs3.ProcLink, &nfs3.LinkArgs{Handle: f, Link: at(d, "f")}, nfs3.OK)
		if l.Attr.Attr != p.attr(f) || l.DirWcc.After.Attr != p.attr(d) {
			p.Errorf("%+v", l)
		}
		m := nfs[nfs3.RenameRes](p, nfs3.ProcRename, &nfs3.RenameArgs{From: at(p.root, "g"), To: at(d, "g")}, nfs3.OK)
		if m.FromWcc.After.Attr != p.attr(p.root) || m.ToWcc.After.Attr != p.attr(d) {
			p.Errorf("%+v", m)
		}
	})
}
