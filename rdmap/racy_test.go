package rdmap_test

import (
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestPeersAtOnce: peers read, write, hash, flush and change words of one region at once, on one stream and on several, by
// one STag and by several. That is theirs to do, and no race of this process: the race detector has nothing to say.
func TestPeersAtOnce(t *testing.T) {
	const size = 1 << 17
	all := region.RemoteRead | region.RemoteWrite | region.Atomic | region.Verify | region.FlushVisible
	path := filepath.Join(t.TempDir(), "memory")
	noErr(t, pmem.Create(path, size, nil))
	file, err := pmem.Open(pmem.File, path, nil)
	noErr(t, err)
	defer file.Close()
	verify := region.Verify
	if file.Verifiable() != nil {
		verify = 0
	}
	plain := make([]byte, size)
	// registered is a region as seen by each of two streams of a domain.
	for name, register := range map[string]func(d *region.Domain, ts [2]*region.Table) (stags [2][]region.STag, err error){
		"shared": func(d *region.Domain, _ [2]*region.Table) (stags [2][]region.STag, err error) {
			r, err := d.RegisterShared(region.Bytes(plain), region.Options{Access: all})
			return [2][]region.STag{{r.STag()}, {r.STag()}}, err
		},
		"for each stream": func(_ *region.Domain, ts [2]*region.Table) (stags [2][]region.STag, err error) {
			for i, tab := range ts {
				r, e := tab.Register(plain, all)
				stags[i], err = []region.STag{r.STag()}, errors.Join(err, e)
			}
			return stags, err
		},
		"for each right": func(_ *region.Domain, ts [2]*region.Table) (stags [2][]region.STag, err error) {
			for i, tab := range ts {
				for _, a := range []region.Access{region.RemoteWrite, region.RemoteRead, region.Atomic, region.Verify | region.RemoteRead, region.FlushVisible} {
					r, e := tab.Register(plain, a)
					stags[i], err = append(stags[i], r.STag()), errors.Join(err, e)
				}
			}
			return stags, err
		},
		"file": func(d *region.Domain, _ [2]*region.Table) (stags [2][]region.STag, err error) {
			r, err := d.RegisterShared(file, region.Options{Access: all&^region.Verify | verify | region.FlushPersistent})
			return [2][]region.STag{{r.STag()}, {r.STag()}}, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "for each right" && !region.RaceDetector {
				// Memory that a registration only lets peers read is lent to the socket. Who lets them store
				// there by another has to keep the two apart in time: else a CRC may be of other octets.
				t.Skip("a Read Response that is lent may change under its CRC; here only the race detector matters")
			}
			d := region.NewDomain()
			var xs [2]*rdmap.Conn
			var tabs [2]*region.Table
			for i := range xs {
				a, b := wire(t, true)
				cfg := &rdmap.Config{Startup: rdmap.Startup{Extensions: verbs.ExtCommit | verbs.Ext7306, IRD: 8, ORD: 8}}
				theirs := *cfg
				theirs.Domain = d
				y := rdmap.Server(b, &theirs)
				xs[i] = rdmap.Client(a, cfg)
				started := make(chan error, 1)
				go func() { started <- y.Handshake(t.Context()) }()
				noErr(t, errors.Join(xs[i].Handshake(t.Context()), <-started))
				tabs[i] = y.Table()
				go y.Serve()
				defer func() { xs[i].Abort(nil); <-y.Done() }()
			}
			stags := must(register(d, tabs))(t)
			var wg sync.WaitGroup
			for i, x := range xs {
				of := func(k int) region.STag { return stags[i][min(k, len(stags[i])-1)] }
				for op, f := range map[string]func(n int) error{
					"write": func(n int) error { return x.Write(t.Context(), make([]byte, n), of(0), 0) },
					"read":  func(n int) error { return x.Read(t.Context(), make([]byte, n), of(1), 0) },
					"add":   func(n int) error { _, err := x.FetchAdd(t.Context(), of(2), uint64(n/8*8), 1, 0); return err },
					"verify": func(n int) error {
						if name == "file" && verify == 0 {
							return nil
						}
						_, err := x.Verify(t.Context(), of(3), 0, uint32(n), nil)
						return err
					},
					"flush": func(n int) error {
						flags := verbs.FlushVisible
						if name == "file" {
							flags = verbs.FlushPersistent
						}
						return x.Flush(t.Context(), of(4), 0, uint32(n), flags)
					},
				} {
					wg.Go(func() {
						for k := range 30 {
							for _, n := range []int{40, 4000, 100_000} {
								if err := f(n); err != nil {
									t.Errorf("%s, round %d, %d octets: %v", op, k, n, err)
									return
								}
							}
						}
					})
				}
			}
			wg.Wait()
		})
	}
}
