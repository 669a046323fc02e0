package rdmaptest

import (
	"fmt"
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

func ExampleMain() {
	testMain := func(m *testing.M) { Main(m) } // a package calls it TestMain
	_ = testMain
	// Output:
}

func ExampleLeaks() {
	if err := Leaks(); err != nil {
		fmt.Println(err)
	}
	// Output:
}
