package region

import "testing"

func TestAllocs(t *testing.T) {
	tab := NewTable()
	mem := make([]byte, 4096)
	w, err := tab.Window(mem)
	if err != nil {
		t.Fatal(err)
	}
	other := register(t, tab, mem, RemoteRead)
	ctx := t.Context()
	for name, f := range map[string]func(){
		"register and invalidate": func() {
			r, err := tab.Register(mem, RemoteWrite)
			if err != nil || r.Invalidate(ctx) != nil {
				t.Error(err)
			}
		},
		"open and invalidate": func() {
			r, err := w.Open(0, 4096, RemoteWrite)
			if err != nil || r.Invalidate(ctx) != nil {
				t.Error(err)
			}
		},
		"register and remote invalidate": func() {
			r, _ := tab.Register(mem, RemoteInvalidate)
			if err := tab.RemoteInvalidate(r.STag()); err != nil {
				t.Error(err)
			}
		},
		"lookup": func() {
			if err := try(tab, other.STag(), 16, 64, RemoteRead); err != nil {
				t.Error(err)
			}
		},
		"refusal": func() {
			_ = try(tab, other.STag(), 16, 64, RemoteWrite)
			_ = try(tab, other.STag(), 16, 64000, RemoteRead)
			_ = try(tab, other.STag()+1, 16, 64, RemoteRead)
		},
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkLookup(b *testing.B) {
	tab := NewTable()
	mem := make([]byte, 4096)
	var stags [64]STag
	for i := range stags {
		stags[i] = register(b, tab, mem, RemoteWrite).STag()
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		v, _ := tab.Lookup(stags[i%64], 64, 1424, RemoteWrite)
		v.Release()
	}
}

func BenchmarkRegister(b *testing.B) {
	tab := NewTable()
	mem := make([]byte, 4096)
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		r, _ := tab.Register(mem, RemoteWrite)
		_ = r.Invalidate(ctx)
	}
}

// BenchmarkOpen is BenchmarkRegister for a Window.
func BenchmarkOpen(b *testing.B) {
	w, err := NewTable().Window(make([]byte, 4096))
	if err != nil {
		b.Fatal(err)
	}
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		r, _ := w.Open(0, 4096, RemoteWrite)
		_ = r.Invalidate(ctx)
	}
}
