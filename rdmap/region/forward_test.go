package region_test

import (
	"bytes"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region"
)

// TestForward: a view moves within its registration, exact to the octet, and no further.
func TestForward(t *testing.T) {
	tab := region.NewTable()
	mem := []byte("0123456789, not registered")[:10]
	r, _ := tab.Register(mem, region.RemoteWrite)
	for first := range uint32(11) {
		for n := -1; n < 12; n++ {
			v := must(tab.Lookup(r.STag(), 0, first, region.RemoteWrite))(t)
			ok := v.Forward(n)
			if want := n >= 0 && int(first)+n <= len(mem); ok != want {
				t.Fatalf("%d octets after %d: %v", n, first, ok)
			}
			at, size := 0, int(first)
			if ok {
				at, size = int(first), n
			}
			if v.Offset() != at || !bytes.Equal(v.Bytes(), mem[at:at+size]) || cap(v.Bytes()) != size {
				t.Fatalf("%d octets after %d: %q at %d, room for %d", n, first, v.Bytes(), v.Offset(), cap(v.Bytes()))
			}
			v.Release()
			if v.Forward(0) {
				t.Fatal("a released view moves")
			}
		}
	}
	if !r.Revoke() || tab.Live() != 0 {
		t.Fatal("a pin is left")
	}
}

// TestForwardInvalid: a view does not move if its registration has become invalid or its memory has failed.
func TestForwardInvalid(t *testing.T) {
	tab := region.NewTable()
	mem := &plainMemory{make([]byte, 10)}
	for name, end := range map[string]func(r *region.Region){
		"revoked":     func(r *region.Region) { r.Revoke() },
		"memory lost": func(*region.Region) { region.RevokeMemory(mem) },
	} {
		r, _ := tab.RegisterMemory(mem, region.Options{Access: region.RemoteWrite})
		v := must(tab.Lookup(r.STag(), 0, 5, region.RemoteWrite))(t)
		end(&r)
		if v.Forward(1) || v.Offset() != 0 {
			t.Errorf("%s: the view moves", name)
		}
		v.Release()
		r.Revoke()
	}
	if tab.Live() != 0 {
		t.Fatal("a pin is left")
	}
}

type plainMemory struct{ b []byte }

func (m *plainMemory) Bytes() []byte          { return m.b }
func (m *plainMemory) Persist(int, int) error { return nil }
func (m *plainMemory) Close() error           { return nil }
