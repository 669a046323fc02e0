package dir

import (
	"net"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

func client(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 1000} }

func TestSearchBounds(t *testing.T) {
	var s searcher
	for i := range maxBuried + 100 {
		s.bury(ownKey(0, uint64(i), 0))
	}
	if len(s.buried) != maxBuried {
		t.Errorf("%d buried", len(s.buried))
	}
	one, two := client("192.0.2.1"), client("192.0.2.2")
	for i := range maxPending {
		if s.join(one, ownKey(0, uint64(i), 0)) == nil {
			t.Fatal("refused early")
		}
	}
	if s.join(one, ownKey(0, 1<<40, 0)) != nil || s.join(one, ownKey(0, 5, 0)) == nil || s.join(two, ownKey(0, 1<<40, 0)) == nil {
		t.Error("the bound of pending keys of a client")
	}
	for i := range 2 * maxHunters {
		s.join(&net.TCPAddr{IP: net.IPv4(10, 0, byte(i>>8), byte(i))}, ownKey(0, 1, 0))
	}
	if len(s.hunters) != maxHunters {
		t.Errorf("%d clients", len(s.hunters))
	}
	for _, c := range s.hunters {
		c.next = nil
	}
	if s.join(client("2001:db8::1"), ownKey(0, 1, 0)) != s.join(client("2001:db8::2"), ownKey(0, 2, 0)) || len(s.hunters) != 1 {
		t.Error("clients that neither wait nor rest make room; an IPv6 network is one client")
	}
	s.bury(ownKey(0, 1, 0))
	s.unbury(ownKey(0, 1, 0))
	if _, ok := s.buried[ownKey(0, 1, 0)]; ok {
		t.Error("still buried")
	}
}

// TestSeal: only who has the key makes handles; another directory, another key, or a changed octet is none.
func TestSeal(t *testing.T) {
	secret := []byte("0123456789abcdef0123456789abcdef")
	s := newSealer(secret, "/srv/a", nil)
	k := ownKey(1<<63+1, 2, -3)
	long, fits := newKey(0x81, make([]byte, maxID))
	if !fits {
		t.Fatal("the longest identity does not fit")
	}
	if _, fits := newKey(1, make([]byte, maxID+1)); fits {
		t.Fatal("too long an identity fits")
	}
	for _, k := range []key{k, long} {
		h := s.append(nil, &k)
		if got, err := s.parse(h); err != nil || got != k || len(h) > backend.MaxHandle {
			t.Errorf("%+v, %v", got, err)
		}
		for _, other := range []*sealer{newSealer(secret, "/srv/b", nil), newSealer(secret[:31], "/srv/a", nil), newSealer(secret, "/srv/a", []byte("x"))} {
			_, err := other.parse(h)
			want(t, err, nfs3.ErrStale)
		}
		for i := range h {
			for bit := range 8 {
				bad := append([]byte(nil), h...)
				bad[i] ^= 1 << bit
				if _, err := s.parse(bad); err == nil {
					t.Errorf("octet %d, bit %d", i, bit)
				}
			}
		}
	}
	again := newSealer(secret, "/srv/a", nil)
	if got, err := again.parse(s.append(nil, &k)); err != nil || got != k {
		t.Errorf("the same key in another process: %v", err)
	}
}
