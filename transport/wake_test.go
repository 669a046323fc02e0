package transport

import (
	"errors"
	"testing"
)

// TestGivenUpCreditWakes: a call that has its credit and cannot be sent gives it to the one
// that waits for it, which nobody else would wake (ADVERSARY row 8).
func TestGivenUpCreditWakes(t *testing.T) {
	cfg := testConfig()
	cfg.Credits = 1
	_, c := pair(t, newEcho(), nil, cfg)
	p := c.newCall()
	p.prepare(c, &nullCall)
	if queued, err := c.begin(p, nil); queued || err != nil {
		t.Fatal(queued, err)
	}
	behind := make(chan error, 1)
	go func() { behind <- try(t, c, &nullCall) }()
	waitFor(t, "the next call waits", func() bool { return c.queued() == 1 })
	if err := c.giveUp(p, errors.New("not sent")); err == nil {
		t.Error("no error")
	}
	if err := <-behind; err != nil {
		t.Error(err)
	}
}
