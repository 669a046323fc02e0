package bench

import (
	"bytes"
	"fmt"
	"os"
)

// peakRSS returns the peak resident memory of this process, in octets.
func peakRSS() (uint64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := bytes.Cut(status, []byte("VmHWM:"))
	var kib uint64
	if _, err := fmt.Sscan(string(rest), &kib); err != nil {
		return 0, fmt.Errorf("bench: VmHWM in /proc/self/status: %w", err)
	}
	return kib << 10, nil
}
