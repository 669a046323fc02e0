package measure_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/internal/measure"
)

// asPeer tells this test binary to be the other process.
const asPeer = "STAG_MEASURE_PEER"

func TestMain(m *testing.M) {
	if os.Getenv(asPeer) != "" {
		if err := measure.ServePeer(os.Args[1:], os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestPeer(t *testing.T) {
	t.Setenv(asPeer, "yes")
	var p []string
	stop, err := measure.StartPeer(t.Context(), &p, os.Stderr, "some", "words")
	if err != nil || strings.Join(p, " ") != "some words" {
		t.Fatal(p, err)
	}
	stop() // and it ends
}

// A program that is no peer says something else, and its complaints are passed on.
func TestNoPeer(t *testing.T) {
	var p []string
	var errs bytes.Buffer
	if _, err := measure.StartPeer(t.Context(), &p, &errs, "-test.nix"); err == nil || errs.Len() == 0 {
		t.Error(p, err, errs.String())
	}
}
