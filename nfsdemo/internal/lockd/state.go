package lockd

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// host is a client that was, or is, to be told when this server starts again.
type host struct{ addr, name string }

// kept is what is on the disk.
type kept struct {
	state uint32 // odd
	hosts map[host]bool
}

// The file:
//
//	state 7
//	host "192.0.2.7" "name of the client"
//	...
func readKept(name string) (k kept, err error) {
	k.hosts = make(map[host]bool)
	b, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err != nil {
		return k, err
	}
	bad := func(line []byte) error {
		return fmt.Errorf("%s: %q is not a line of this file: remove the file, and clients that held locks will not learn that they are lost", name, line)
	}
	lines := bufio.NewScanner(bytes.NewReader(b))
	for first := true; lines.Scan(); first = false {
		if first {
			if _, err := fmt.Sscanf(lines.Text(), "state %d", &k.state); err != nil {
				return k, bad(lines.Bytes())
			}
			continue
		}
		var h host
		if _, err := fmt.Sscanf(lines.Text(), "host %q %q", &h.addr, &h.name); err != nil {
			return k, bad(lines.Bytes())
		}
		k.hosts[h] = true
	}
	return k, lines.Err()
}

// write replaces the file; it is durable when write returns.
func (k *kept) write(name string) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "state %d\n", k.state)
	for h := range k.hosts {
		fmt.Fprintf(&b, "host %q %q\n", h.addr, h.name)
	}
	dir := filepath.Dir(name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, ".locks")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) //nolint:errcheck // it was renamed
	_, err = tmp.Write(b.Bytes())
	if err == nil {
		err = tmp.Sync()
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp.Name(), name)
	}
	if err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
