package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// TestForeignNames: JSON has the octets of names that are not UTF-8, so that two of them are
// not told as one.
func TestForeignNames(t *testing.T) {
	dir, rdma, _ := start(t)
	if err := os.WriteFile(filepath.Join(dir, "a\xff\xfe"), nil, 0o600); err != nil {
		t.Skip("no such names here:", err)
	}
	if err := os.Symlink("b\x80", filepath.Join(dir, "link")); err != nil {
		t.Skip("no such links here:", err)
	}
	r := command(t.Context(), "", "ls", "--json", rdma)
	if r.status != 0 {
		t.Fatal(r.stderr)
	}
	d := json.NewDecoder(bytes.NewReader([]byte(r.stdout)))
	for _, want := range []struct{ path, target string }{{dir + "/a\xff\xfe", ""}, {"", "b\x80"}} {
		var got fileJSON
		if err := d.Decode(&got); err != nil || string(got.PathOctets) != want.path || string(got.TargetOctets) != want.target {
			t.Errorf("%+v %v", got, err)
		}
	}
}
