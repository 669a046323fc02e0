package server_test

import (
	"slices"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

// page is one READDIR or READDIRPLUS.
func (p *peer) page(dir nfs3.FileHandle, plus bool, cookie uint64, verf nfs3.CookieVerf, names, size uint32, want nfs3.Status) *nfs3.ReadDirPlusRes {
	p.Helper()
	if plus {
		a := nfs3.ReadDirPlusArgs{Dir: dir, Cookie: cookie, Verf: verf, DirCount: names, MaxCount: size}
		return nfs[nfs3.ReadDirPlusRes](p, nfs3.ProcReadDirPlus, &a, want)
	}
	a := nfs3.ReadDirArgs{Dir: dir, Cookie: cookie, Verf: verf, Count: size}
	r := nfs[nfs3.ReadDirRes](p, nfs3.ProcReadDir, &a, want)
	out := &nfs3.ReadDirPlusRes{Status: r.Status, Attr: r.Attr, Verf: r.Verf, EOF: r.EOF}
	for _, e := range r.Entries {
		out.Entries = append(out.Entries, nfs3.DirPlusEntry{DirEntry: e})
	}
	return out
}

// list reads a whole directory and checks the bounds of every page.
func (p *peer) list(dir nfs3.FileHandle, plus bool, names, size uint32) (all []nfs3.DirPlusEntry) {
	p.Helper()
	var (
		cookie uint64
		verf   nfs3.CookieVerf
	)
	for range 10000 {
		r := p.page(dir, plus, cookie, verf, names, size, nfs3.OK)
		var octets, nameOctets int
		for i := range r.Entries {
			e := &r.Entries[i]
			nameOctets += e.DirEntry.Size() - 4
			octets += e.DirEntry.Size()
			if plus {
				octets += e.Size() - e.DirEntry.Size()
			}
		}
		if total := 88 + 8 + octets + 8; uint64(total) > uint64(size) {
			p.Fatalf("%d octets, asked for %d", total, size)
		}
		if plus && len(r.Entries) > 1 && nameOctets > int(names) {
			p.Fatalf("%d octets of names, asked for %d", nameOctets, names)
		}
		all = append(all, r.Entries...)
		if r.EOF {
			return all
		}
		if len(r.Entries) == 0 {
			p.Fatal("an empty page before the end")
		}
		cookie, verf = r.Entries[len(r.Entries)-1].Cookie, r.Verf
	}
	p.Fatal("no end")
	return nil
}

func namesOf(list []nfs3.DirPlusEntry) []string {
	var out []string
	for _, e := range list {
		out = append(out, e.Name)
	}
	slices.Sort(out)
	return out
}

func TestReadDir(t *testing.T) {
	onBoth(t, func(p *peer) {
		d := p.mkdir(p.root, "d", 0o755)
		want := []string{".", ".."}
		for i := range 100 {
			p.create(d, name(i), 0o644)
			want = append(want, name(i))
		}
		for _, c := range []struct {
			plus        bool
			names, size uint32
		}{{false, 0, 150}, {false, 0, 1000}, {false, 0, 1 << 20}, {false, 0, 1<<32 - 1}, {true, 1 << 20, 300}, {true, 200, 1 << 20}, {true, 0, 4096}, {true, 65536, 65536}} {
			list := p.list(d, c.plus, c.names, c.size)
			if got := namesOf(list); !slices.Equal(got, want) {
				p.Errorf("%+v: %d names", c, len(got))
			}
			for _, e := range list {
				if !c.plus {
					continue
				}
				l := p.lookup(d, e.Name, nfs3.OK)
				if !e.Attr.Present || !e.Handle.Present || string(e.Handle.Handle) != string(l.Handle) || e.FileID != l.Attr.Attr.FileID {
					p.Errorf("%+v, LOOKUP %+v", e, l)
				}
			}
		}
	})
}

func TestReadDirErrors(t *testing.T) {
	onBoth(t, func(p *peer) {
		d := p.mkdir(p.root, "d", 0o755)
		p.create(d, "a-name-of-some-length", 0o644)
		for _, plus := range []bool{false, true} {
			for _, size := range []uint32{0, 1, 103, 104, 120} {
				p.page(d, plus, 0, nfs3.CookieVerf{}, 1000, size, nfs3.ErrTooSmall)
			}
			r := p.page(d, plus, 0, nfs3.CookieVerf{}, 1000, 4096, nfs3.OK)
			cookie, bad := r.Entries[0].Cookie, r.Verf
			bad[3] ^= 0x40
			p.page(d, plus, cookie, bad, 1000, 4096, nfs3.ErrBadCookie)
			p.page(d, plus, cookie, nfs3.CookieVerf{}, 1000, 4096, nfs3.ErrBadCookie)
			p.page(d, plus, 0, bad, 1000, 4096, nfs3.OK) // the start needs none
			// After the last entry there is an empty page with eof.
			last := r.Entries[len(r.Entries)-1].Cookie
			if r := p.page(d, plus, last, r.Verf, 1000, 4096, nfs3.OK); len(r.Entries) != 0 || !r.EOF {
				p.Errorf("after the end: %+v", r)
			}
			f := p.lookup(d, "a-name-of-some-length", nfs3.OK).Handle
			p.page(f, plus, 0, nfs3.CookieVerf{}, 1000, 4096, nfs3.ErrNotDir)
		}
	})
}

// TestReadDirExact: the largest count that is too small, and the smallest that is not.
func TestReadDirExact(t *testing.T) {
	onBoth(t, func(p *peer) {
		d := p.mkdir(p.root, "d", 0o755)
		whole := p.page(d, false, 0, nfs3.CookieVerf{}, 0, 4096, nfs3.OK)
		size := uint32(88 + 8 + 8)
		for _, e := range whole.Entries {
			size += uint32(e.DirEntry.Size())
		}
		if r := p.page(d, false, 0, nfs3.CookieVerf{}, 0, size, nfs3.OK); !r.EOF || len(r.Entries) != 2 {
			p.Errorf("%d octets: %d entries, eof %v", size, len(r.Entries), r.EOF)
		}
		if r := p.page(d, false, 0, nfs3.CookieVerf{}, 0, size-1, nfs3.OK); r.EOF || len(r.Entries) != 1 {
			p.Errorf("%d octets: %d entries, eof %v", size-1, len(r.Entries), r.EOF)
		}
		args := nfs3.ReadDirArgs{Dir: d, Count: size}
		_, body := p.raw(nfs3.Program, 3, uint32(nfs3.ProcReadDir), xdr.Encode(nil, &args))
		if len(body) != int(size)+4 {
			p.Errorf("resok of %d octets, count %d", len(body)-4, size)
		}
	})
}

func TestFSProcs(t *testing.T) {
	onBoth(t, func(p *peer) {
		h := nfs3.HandleArgs{Handle: p.root}
		s := nfs[nfs3.FSStatRes](p, nfs3.ProcFSStat, &h, nfs3.OK)
		if s.TotalBytes == 0 || s.AvailBytes > s.TotalBytes || !s.Attr.Present {
			p.Errorf("%+v", s)
		}
		i := nfs[nfs3.FSInfoRes](p, nfs3.ProcFSInfo, &h, nfs3.OK)
		i.Attr = nfs3.OptAttr{}
		want := nfs3.FSInfoRes{
			RTMax: 1 << 20, RTPref: 1 << 20, RTMult: 4096, WTMax: 1 << 20, WTPref: 1 << 20, WTMult: 4096, DTPref: 64 << 10,
			MaxFileSize: p.srv.FirstFS().Info().MaxFileSize, TimeDelta: nfs3.Time{Nsec: 1}, Properties: 0x1b,
		}
		if *i != want {
			p.Errorf("%+v", i)
		}
		c := nfs[nfs3.PathConfRes](p, nfs3.ProcPathConf, &h, nfs3.OK)
		if c.NameMax != 255 || c.LinkMax < 2 || !c.NoTrunc || !c.ChownRestricted || c.CaseInsensitive || !c.CasePreserving {
			p.Errorf("%+v", c)
		}
		var d xdr.Decoder
		if xdr.Decode(&d, &nfs3.Void{}).Err() != nil {
			p.Error("void")
		}
	})
}
