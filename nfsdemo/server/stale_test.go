package server_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

// canary is what the memory of replies is full of: octets of a file that others may not read.
const canary = "\xcc\xcc\xcc\xcc"

// TestNothingStaleInReplies: no reply of any procedure has octets that another reply has left in pooled memory: READs with
// holes, of files that were cut and made longer again, at their end and beyond, READLINKs, directories (RFC 5042
// Section 6.3.2).
func TestNothingStaleInReplies(t *testing.T) {
	onBoth(t, func(p *peer) {
		secret := p.create(p.root, "secret", 0o600)
		const most = 1 << 20
		for off := 0; off < most; off += 128 << 10 {
			p.write(secret, uint64(off), strings.Repeat("\xcc", 128<<10))
		}
		taint := func() {
			for _, n := range []uint32{4000, 16_000, 64_000, 130_000, 260_000, 500_000, most} {
				if r := p.read(secret, 0, n); !bytes.Contains(r.Data, []byte(canary)) {
					t.Fatal("the secret is not read")
				}
			}
		}
		clean := func(what string, proc nfs3.Proc, args xdr.Message) {
			t.Helper()
			taint()
			_, body := p.raw(nfs3.Program, nfs3.Version, uint32(proc), xdr.Encode(nil, args))
			if bytes.Contains(body, []byte(canary)) {
				t.Errorf("%v, %s: octets of another reply", proc, what)
			}
		}
		// A file that held the same octets, was cut, and has grown again with holes.
		file := p.create(p.root, "file", 0o644)
		p.write(file, 0, strings.Repeat("\xcc", 100_000))
		size := func(n uint64) {
			nfs[nfs3.SetAttrRes](p, nfs3.ProcSetAttr, &nfs3.SetAttrArgs{Handle: file, Attr: nfs3.SetAttr{SetSize: true, Size: n}}, nfs3.OK)
		}
		size(3)
		size(700_000)
		size(650_001)
		nfs[nfs3.WriteRes](p, nfs3.ProcWrite, &nfs3.WriteArgs{Handle: file, Offset: 0, Count: 3, Data: []byte("abc")}, nfs3.OK)
		p.write(file, 300_000, "in the middle")
		rnd := rand.New(rand.NewPCG(6, 32))
		for range 40 {
			a := &nfs3.ReadArgs{Handle: file, Offset: rnd.Uint64N(700_000), Count: rnd.Uint32N(1 << uint(1+rnd.IntN(20)))}
			clean(fmt.Sprintf("%d at %d", a.Count, a.Offset), nfs3.ProcRead, a)
		}
		link := nfs[nfs3.SymlinkRes](p, nfs3.ProcSymlink, &nfs3.SymlinkArgs{Where: at(p.root, "link"), Attr: mode(0o777), Path: strings.Repeat("to/", 300)}, nfs3.OK).Handle.Handle
		h := func(h nfs3.FileHandle) *nfs3.HandleArgs { return &nfs3.HandleArgs{Handle: h} }
		look := at(p.root, "file")
		for proc, args := range map[nfs3.Proc]xdr.Message{
			nfs3.ProcReadLink: h(link), nfs3.ProcGetAttr: h(file), nfs3.ProcLookup: &look,
			nfs3.ProcAccess: &nfs3.AccessArgs{Handle: file, Access: 63}, nfs3.ProcFSStat: h(p.root), nfs3.ProcFSInfo: h(p.root), nfs3.ProcPathConf: h(p.root),
			nfs3.ProcReadDir: &nfs3.ReadDirArgs{Dir: p.root, Count: 8192}, nfs3.ProcReadDirPlus: &nfs3.ReadDirPlusArgs{Dir: p.root, DirCount: 4096, MaxCount: 32768},
			nfs3.ProcCommit: &nfs3.CommitArgs{Handle: file},
		} {
			clean("", proc, args)
		}
	})
}
