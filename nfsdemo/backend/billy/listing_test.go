package billy_test

import (
	"fmt"
	"os"
	"testing"

	gobilly "github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/memfs"
	"github.com/stag-rdma/stag/nfsdemo/backend/billy"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// counted counts how often a directory is read.
type counted struct {
	gobilly.Filesystem
	reads int
}

func (c *counted) ReadDir(path string) ([]os.FileInfo, error) {
	c.reads++
	return c.Filesystem.ReadDir(path)
}

// TestListing: a directory is read once for all its pages, and who continues sees what was renamed or removed meanwhile
// as it is now.
func TestListing(t *testing.T) {
	under := &counted{Filesystem: memfs.New()}
	const many = 1000
	for i := range many {
		f := must(under.Create(fmt.Sprintf("d/%04d", i)))(t)
		f.Close()
	}
	d, _, err := billy.New(under, nil).Root().Lookup("d")
	if err != nil {
		t.Fatal(err)
	}
	under.reads = 0
	seen := make(map[string]int)
	var last nfs3.DirPlusEntry
	var verf nfs3.CookieVerf
	for pages, done := 0, false; !done; pages++ {
		n := 0
		verf, done, err = d.ReadDir(last.Cookie, verf, true, func(e *nfs3.DirPlusEntry) bool {
			if n++; n > 100 {
				return false
			}
			last = *e
			seen[e.Name]++
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		if pages == 1 {
			noErr(t, d.Remove("0998", false))
			noErr(t, d.Rename("0999", d, "other"))
		}
	}
	if under.reads != 1 || len(seen) != many+1 || seen["other"] != 1 || seen["0998"]+seen["0999"] != 0 {
		t.Errorf("read %d times; %d names, other %d, removed %d, renamed %d", under.reads, len(seen), seen["other"], seen["0998"], seen["0999"])
	}
	for name, k := range seen {
		if k != 1 {
			t.Errorf("%s: %d times", name, k)
		}
	}
}
