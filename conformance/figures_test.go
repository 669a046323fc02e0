package main

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/bench"
)

// TestFigures: the tables and charts of the documents are those of docs/figures.json. If not: make figures.
func TestFigures(t *testing.T) {
	b, err := os.ReadFile("../docs/figures.json")
	if err != nil {
		t.Fatal(err)
	}
	var r bench.Report
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	made := make(map[string]string)
	if again, err := r.JSON(); err != nil || string(again) != string(b) {
		t.Errorf("figures.json is not as it is written (%v): make figures", err)
	}
	for name, chart := range r.Charts() {
		made["../docs/"+name] = chart
	}
	if len(made) == 0 {
		t.Error("no charts")
	}
	for _, name := range []string{"../README.md", "../docs/performance.md"} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if made[name], err = r.Fill(string(b)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, want := range made {
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s: %v: it is not made from docs/figures.json: make figures", name, err)
		}
	}
}
