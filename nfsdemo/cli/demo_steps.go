package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
)

// step is a part of the demonstration.
type step struct {
	name string
	do   func(ctx context.Context) error
}

// steps lists the steps after the mount. It skips files larger than most.
func (d *demo) steps(most int) []step {
	sizes := slices.DeleteFunc(slices.Clone(demoSizes), func(n int) bool { return n > most })
	d.data = make(nfsclient.Memory, slices.Max(append(sizes, 0)))
	d.back = make(nfsclient.Memory, len(d.data))
	_, _ = rand.NewChaCha8([32]byte{'s', 't', 'a', 'g'}).Read(d.data) // never fails
	var list []step
	for _, n := range sizes {
		list = append(list,
			step{"write " + sizeName(n), func(ctx context.Context) error { return d.write(ctx, n) }},
			step{"read it back, compare", func(ctx context.Context) error { return d.read(ctx, n) }})
	}
	return append(list,
		step{"make directories, a link", d.mkdir},
		step{"list", func(ctx context.Context) error { return d.list(ctx, len(sizes)) }},
		step{"rename", d.rename},
		step{"remove everything", d.remove})
}

// sizeName names a size: "4097 octets", "1 MiB + 3", "64 MiB".
func sizeName(n int) string {
	const mib = 1 << 20
	switch {
	case n < mib:
		return plural(n, "octet")
	case n%mib == 0:
		return fmt.Sprintf("%d MiB", n/mib)
	}
	return fmt.Sprintf("%d MiB + %d", n/mib, n%mib)
}

// fileName is the name of the file of n octets.
func fileName(n int) string { return fmt.Sprintf("file-%d", n) }

// write writes a file, and looks at the server's disk.
func (d *demo) write(ctx context.Context, n int) error {
	node, err := d.c.Create(ctx, d.root, fileName(n), 0o644, true)
	if err != nil {
		return err
	}
	if done, err := d.c.WriteFrom(ctx, node, d.data[:n:n], int64(n), nil); err != nil || done != int64(n) {
		return errors.Join(err, fmt.Errorf("wrote %d of %d octets", done, n))
	}
	st, err := os.Stat(filepath.Join(d.dir, fileName(n)))
	if err == nil && st.Size() != int64(n) {
		err = fmt.Errorf("the file on the server has %d octets, want %d", st.Size(), n)
	}
	return err
}

// read reads a file back and compares.
func (d *demo) read(ctx context.Context, n int) error {
	node, err := d.c.Child(ctx, d.root, fileName(n))
	if err != nil {
		return err
	}
	clear(d.back[:n])
	if done, err := d.c.ReadTo(ctx, node, d.back[:n:n], nil); err != nil || done != int64(n) {
		return errors.Join(err, fmt.Errorf("read %d of %d octets", done, n))
	}
	if !bytes.Equal(d.back[:n], d.data[:n]) {
		return fmt.Errorf("what was read differs from what was written at octet %d", firstDifference(d.back[:n], d.data[:n]))
	}
	return nil
}

// firstDifference returns the first index at which a and b, of equal length, differ.
func firstDifference(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return len(a)
}

// mkdir makes nested directories, and a symbolic link to the inner one.
func (d *demo) mkdir(ctx context.Context) error {
	if _, err := d.c.MkdirAll(ctx, d.c.Export()+"/dir/sub", 0o755); err != nil {
		return err
	}
	if _, err := d.c.Symlink(ctx, d.root, "link", "dir/sub"); err != nil {
		return err
	}
	n, err := d.c.Lookup(ctx, d.c.Export()+"/link")
	if err == nil && n.Path != d.c.Export()+"/dir/sub" {
		err = fmt.Errorf("the link leads to %s", n.Path)
	}
	return err
}

// list lists the root and checks the names.
func (d *demo) list(ctx context.Context, files int) error {
	list, err := d.c.ReadDir(ctx, d.root)
	if err == nil && len(list) != files+2 {
		err = fmt.Errorf("listed %d names, want %d", len(list), files+2)
	}
	return err
}

// rename moves a file into the directory.
func (d *demo) rename(ctx context.Context) error {
	sub, err := d.c.Lookup(ctx, d.c.Export()+"/dir/sub")
	if err != nil {
		return err
	}
	if err := d.c.Rename(ctx, d.root, fileName(demoSizes[0]), sub, "moved"); err != nil {
		return err
	}
	if _, err := d.c.Child(ctx, d.root, fileName(demoSizes[0])); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the old name is still there (%w)", err)
	}
	_, err = d.c.Child(ctx, sub, "moved")
	return err
}

// remove removes everything, and looks at the server's disk.
func (d *demo) remove(ctx context.Context) error {
	list, err := d.c.ReadDir(ctx, d.root)
	if err != nil {
		return err
	}
	for _, n := range list {
		if _, err := d.c.RemoveAll(ctx, d.root, n); err != nil {
			return err
		}
	}
	left, err := os.ReadDir(d.dir)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("%s left on the server", plural(len(left), "name"))
	}
	return err
}
