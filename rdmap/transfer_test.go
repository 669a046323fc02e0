package rdmap_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/internal/conntest"
	"github.com/stag-rdma/stag/rdmap/internal/enginetest"
	"github.com/stag-rdma/stag/rdmap/region"
)

func TestSendBothWays(t *testing.T) {
	conntest.OnWires(t, func(t *testing.T, a, b net.Conn) {
		x, y := conntest.Connect(t, a, b, nil, nil)
		ctx := t.Context()
		for _, n := range []int{0, 1, 100, 1500, 4096} {
			if err := x.Send(ctx, enginetest.Pattern(n)); err != nil {
				t.Fatal(err)
			}
			m, err := y.Recv(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(m.Data, enginetest.Pattern(n)) {
				t.Fatalf("echo of %d octets: got %d octets that differ", n, len(m.Data))
			}
			if err := y.Send(ctx, m.Data); err != nil {
				t.Fatal(err)
			}
			if m, err = x.Recv(ctx); err != nil || len(m.Data) != n {
				t.Fatalf("echo of %d: %v", n, err)
			}
		}
	})
}

func TestWriteAndRead(t *testing.T) {
	for _, cfg := range []*rdmap.Config{nil, {Startup: rdmap.Startup{CRC: rdmap.CRCOff}}, {Startup: rdmap.Startup{Plain: true}}, {Startup: rdmap.Startup{Plain: true, MULPDU: 131}}} {
		conntest.OnWires(t, func(t *testing.T, a, b net.Conn) {
			x, y := conntest.Connect(t, a, b, cfg, cfg)
			ctx := t.Context()
			mem := make([]byte, 3<<20)
			reg, err := y.Register(mem, region.RemoteRead|region.RemoteWrite)
			if err != nil {
				t.Fatal(err)
			}
			go y.Serve()
			for _, n := range []int{0, 1, 4096, 4097, 100001, 3 << 20} {
				clear(mem)
				data := enginetest.Pattern(n)
				if err := x.Write(ctx, data, reg.STag(), 0); err != nil {
					t.Fatal(err)
				}
				sink := make([]byte, n)
				if err := x.Read(ctx, sink, reg.STag(), 0); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(sink, data) || !bytes.Equal(mem[:n], data) {
					t.Fatalf("read of %d octets: they differ from what was written", n)
				}
			}
		})
	}
}

func TestCloseIsSeen(t *testing.T) {
	conntest.OnWires(t, func(t *testing.T, a, b net.Conn) {
		x, y := conntest.Connect(t, a, b, nil, nil)
		served := make(chan error, 1)
		go func() { served <- y.Serve() }()
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-served; !errors.Is(err, io.EOF) || !errors.Is(err, net.ErrClosed) {
			t.Fatalf("server ended with %v", err)
		}
		if err := x.Send(t.Context(), nil); !errors.Is(err, net.ErrClosed) {
			t.Fatalf("send after close: %v", err)
		}
	})
}
