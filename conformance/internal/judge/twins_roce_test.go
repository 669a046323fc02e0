package judge_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/judge"
	"github.com/stag-rdma/stag/conformance/internal/judge/internal/twin"
)

const (
	linkEthernet   = 1
	linkInfiniBand = 247
)

// judgedRoCE judges packets. It returns the rules broken, without consequences.
func judgedRoCE(t *testing.T, link uint32, packets [][]byte, cut int) (*judge.Report, []string) {
	t.Helper()
	r, err := judge.File(bytes.NewReader(twin.Pcap(link, packets, cut)), nil)
	if err != nil {
		t.Fatal(err)
	}
	var broken []string
	for _, v := range r.Violations {
		if !slices.Contains(broken, v.Rule.ID) {
			broken = append(broken, v.Rule.ID)
		}
	}
	slices.Sort(broken)
	return r, broken
}

// inRoCE are the forms of one conversation.
var inRoCE = map[string]twin.RoCE{
	"RoCE v2": {}, "RoCE v2, IPv6, 1024": {V6: true, MTU: 1024}, "RoCE v1": {V1: true, MTU: 4096}, "InfiniBand": {LID: true},
	"another service": {Service: 0x1000000000000007, MTU: 512}, "without acknowledgements": {NoAcks: true},
}

// TestTwinsRoCE: a conversation of RPC-over-RDMA breaks the same rules whatever carries it.
func TestTwinsRoCE(t *testing.T) {
	for _, table := range []map[string]func(*twin.RPC){rpcrdmaTwins, rpcTwins, nfsTwins, {"good": goodRPC, "goodOld": goodOld}} {
		for id, talk := range table {
			t.Run(id, func(t *testing.T) {
				talk := func(t *twin.RPC) { // behind which each side shows that none of its packets is missing
					talk(t)
					t.Frames = slices.DeleteFunc(t.Frames, func(f *twin.Frame) bool { return f.End != twin.NoEnd })
					t.Do(t.Null())
					t.Do(t.Null())
				}
				want := played(t, talk)
				want = slices.DeleteFunc(want, func(id string) bool { return !strings.HasPrefix(id, "R") && !strings.HasPrefix(id, "N") })
				for name, o := range inRoCE {
					conv := twin.NewRPC()
					talk(conv)
					link := uint32(linkEthernet)
					if o.LID {
						link = linkInfiniBand
					}
					r, got := judgedRoCE(t, link, conv.RoCE(o), 0)
					if !slices.Equal(got, want) {
						t.Errorf("%s: broken: %v, want %v", name, got, want)
						for _, v := range r.Violations {
							t.Log(v)
						}
					}
					why := slices.DeleteFunc(r.Reasons(), func(s string) bool { return strings.Contains(s, "RPCSEC_GSS") })
					if len(why) > 0 || len(r.Connections) != 1 {
						t.Errorf("%s: %q", name, why)
					}
				}
			})
		}
	}
}
