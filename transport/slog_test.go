package transport_test

import (
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stag-rdma/stag/transport"
	"go.uber.org/zap"
)

// TestSlogLogger: every kind of field arrives, in order, at its level.
func TestSlogLogger(t *testing.T) {
	var out strings.Builder
	log := transport.SlogLogger(slog.NewTextHandler(&out, nil)).With(zap.Int("with", 1))
	log.Debug("below the level")
	log.Info("fields", zap.Uint32("u", 7), zap.Duration("d", time.Second), zap.Bool("b", true),
		zap.Stringer("s", netip.MustParseAddr("192.0.2.1")), zap.ByteString("o", []byte("octets")), zap.Error(errors.New("broken")), zap.Error(nil))
	log.DPanic("zap's own level")
	_, rest, _ := strings.Cut(out.String(), " ")
	if want := "level=INFO msg=fields with=1 u=7 d=1s b=true s=192.0.2.1 o=octets error=broken\n"; !strings.HasPrefix(rest, want) {
		t.Errorf("got %q, want %q", rest, want)
	}
	if n := strings.Count(out.String(), "\n"); n != 2 || !strings.Contains(out.String(), "level=ERROR msg=\"zap's own level\"") {
		t.Errorf("%d lines: %s", n, out.String())
	}
	if err := log.Sync(); err != nil {
		t.Error(err)
	}
}
