package cli

import (
	"fmt"

	"github.com/stag-rdma/stag/rdmap/capture"
)

// startCapture creates the file of --pcap.
func (a *app) startCapture() error {
	if a.pcap == "" {
		return nil
	}
	w, err := capture.Create(a.pcap)
	if err != nil {
		return fmt.Errorf("--pcap %s: %w", a.pcap, bare(err))
	}
	a.capture.Store(w)
	return nil
}

// stopCapture flushes and closes the file of --pcap.
func (a *app) stopCapture() error {
	w := a.capture.Load()
	if w == nil {
		return nil
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("--pcap %s: %w", a.pcap, bare(err))
	}
	return nil
}
