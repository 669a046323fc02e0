package judge_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

// TestStartupOnce: a startup frame whose length is more than there may be, or leaves no room for the enhanced word, is one
// mistake, of its sender: what it does not settle is nobody's, and what its own side sends next cannot be read.
func TestStartupOnce(t *testing.T) {
	for _, tt := range []struct {
		length uint16
		rule   string
	}{{513, "MPA-004"}, {0xffff, "MPA-004"}, {0, "MPA-006"}, {3, "MPA-006"}} {
		for _, name := range []string{"a-rping", "b-nfs3-ops", "c-nfs41", "e-perftest", "f-nfs3-crc-ops", "f-nfs3-p2p-ops"} {
			b, err := os.ReadFile(filepath.Join("../../testdata/pcaps", name+".pcap"))
			if err != nil {
				t.Fatal(err)
			}
			known := make(map[string]bool)
			for _, v := range report(t, b).Violations {
				known[v.Rule.ID] = true
			}
			for dir, key := range []string{"MPA ID Req Frame", "MPA ID Rep Frame"} {
				bad := bytes.Clone(b)
				binary.BigEndian.PutUint16(bad[bytes.Index(bad, []byte(key))+18:], tt.length)
				n := 0
				for _, v := range report(t, bad).Violations {
					switch {
					case v.Rule.ID == tt.rule && int(v.Dir) == dir:
						n++
					case !known[v.Rule.ID]:
						t.Errorf("%s, %s of %d octets: %v", name, key, tt.length, v)
					}
				}
				if n != 1 {
					t.Errorf("%s, %s of %d octets: %d times %s", name, key, tt.length, n, tt.rule)
				}
			}
		}
	}
}
