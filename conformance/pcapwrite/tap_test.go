package pcapwrite

import (
	"bytes"
	"io"
	"net"
	"testing"
)

func TestTap(t *testing.T) {
	var file bytes.Buffer
	w, err := NewWriter(&file)
	if err != nil {
		t.Fatal(err)
	}
	a, b := net.Pipe()
	ta := w.Tap(a, true)
	done := make(chan error, 1)
	go func() {
		p := make([]byte, 5)
		if _, err := io.ReadFull(b, p); err != nil {
			done <- err
			return
		}
		_, err := b.Write(bytes.ToUpper(p))
		done <- err
	}()
	if _, err := ta.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 5)
	if _, err := io.ReadFull(ta, p); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := ta.Close(); err != nil {
			t.Fatal(err)
		}
	}
	all := packets(t, file.Bytes())
	if got := stream(t, all, 1000); string(got) != "hello" {
		t.Errorf("to the server: %q", got)
	}
	if got := stream(t, all, 20049); string(got) != "HELLO" {
		t.Errorf("to the client: %q", got)
	}
	if len(all) != 7 {
		t.Errorf("%d packets, want handshake, two segments and two FINs", len(all))
	}
}
