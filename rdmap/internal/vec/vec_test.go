//go:build linux

package vec

import (
	"bytes"
	"io"
	"os"
	"testing"
)

func TestWritev(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var v Writer
	pieces := [][]byte{[]byte("abc"), nil, []byte("d"), bytes.Repeat([]byte("e"), 1000)}
	fd := int(w.Fd())
	for _, vec := range [][][]byte{pieces, pieces[:1], pieces[1:2]} {
		if n, err := v.Writev(fd, vec); err != nil || n != len(bytes.Join(vec, nil)) {
			t.Fatalf("wrote %d, %v", n, err)
		}
	}
	w.Close()
	got, _ := io.ReadAll(r)
	if want := string(bytes.Join(pieces, nil)) + "abc"; string(got) != want {
		t.Fatalf("got %q", got)
	}
	if _, err := v.Writev(-1, pieces); err == nil {
		t.Fatal("no error from a bad descriptor")
	}
}

func TestWritevAllocs(t *testing.T) {
	f, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fd := int(f.Fd())
	var v Writer
	vec := [][]byte{make([]byte, 10), make([]byte, 10)}
	if n := testing.AllocsPerRun(100, func() { v.Writev(fd, vec) }); n != 0 && !raceEnabled {
		t.Fatalf("%v allocations", n)
	}
}
