package pmem

import "testing"

func TestGate(t *testing.T) {
	var g gate
	if !g.enter() {
		t.Fatal("a new gate is shut")
	}
	g.hold()
	idle := g.close()
	if g.enter() {
		t.Error("a shut gate lets somebody in")
	}
	g.leave()
	select {
	case <-idle:
		t.Error("the gate is idle although somebody is inside")
	default:
	}
	g.leave()
	<-idle
	<-g.close()
	<-new(gate).close()
}
