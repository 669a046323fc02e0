package rdmaptest

import (
	"strings"
	"testing"
	"time"
)

func TestLeaks(t *testing.T) {
	end := make(chan struct{})
	go lingers(end)
	if err := leaks(time.Millisecond); err == nil || !strings.Contains(err.Error(), "lingers") {
		t.Errorf("Leaks says %v of a goroutine that lingers", err)
	}
	close(end)
	if err := Leaks(); err != nil {
		t.Error(err)
	}
}

func lingers(end chan struct{}) { <-end }

func TestMain(m *testing.M) { Main(m) }
