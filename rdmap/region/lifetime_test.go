package region_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/rdmap/region"
)

// Invalidate returns only when nobody can access the memory.
func TestInvalidateWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := region.NewTable()
		r := register(t, tab, make([]byte, 8), region.RemoteRead)
		v1, _ := tab.Lookup(r.STag(), 0, 8, region.RemoteRead)
		v2, _ := tab.Lookup(r.STag(), 2, 2, region.RemoteRead)
		done := make(chan error, 2)
		for range 2 {
			go func() { done <- r.Invalidate(t.Context()) }()
		}
		synctest.Wait()
		if r.Valid() || tab.Live() != 1 || tab.Domain().Pinned() != 1 {
			t.Error("not revoked at once, or freed too early")
		}
		if err := try(tab, r.STag(), 0, 8, region.RemoteRead); !errors.Is(err, region.ErrInvalidSTag) {
			t.Errorf("new pin: %v", err)
		}
		v1.Release()
		synctest.Wait()
		if len(done) != 0 {
			t.Fatal("returned with one pin left")
		}
		v2.Release()
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if tab.Live() != 0 || tab.Domain().Pinned() != 0 {
			t.Error("a registration is left")
		}
	})
}

func TestErrPinned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := region.NewTable()
		r := register(t, tab, make([]byte, 8), region.RemoteRead)
		v, _ := tab.Lookup(r.STag(), 0, 8, region.RemoteRead)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if err := r.Invalidate(ctx); !errors.Is(err, region.ErrPinned) || time.Since(start) != time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if err := tab.Close(ctx); !errors.Is(err, region.ErrPinned) {
			t.Errorf("Close: %v", err)
		}
		if v.Bytes()[7] = 1; tab.Domain().Pinned() != 1 {
			t.Error("the pin is not counted")
		}
		v.Release()
		// Results beat cancellation: the context has ended, but the memory is free.
		if err := r.Invalidate(ctx); err != nil {
			t.Errorf("%v", err)
		}
		if err := tab.Close(ctx); err != nil {
			t.Errorf("%v", err)
		}
	})
}

func TestTableCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := region.NewDomain()
		tab, other := d.NewTable(), d.NewTable()
		keep := register(t, other, make([]byte, 8), region.RemoteRead)
		var views []region.View
		for i := range 20 {
			r := register(t, tab, make([]byte, 8), region.RemoteRead)
			if i%5 == 0 {
				v, _ := tab.Lookup(r.STag(), 0, 8, region.RemoteRead)
				views = append(views, v)
			}
		}
		done := make(chan error, 1)
		go func() { done <- tab.Close(t.Context()) }()
		for i := range views {
			synctest.Wait()
			if len(done) != 0 || d.Pinned() != len(views)-i || d.Live() != len(views)-i+1 {
				t.Errorf("%d pinned, %d live, %d done", d.Pinned(), d.Live(), len(done))
			}
			views[i].Release()
		}
		if err := <-done; err != nil || d.Live() != 1 || !keep.Valid() {
			t.Errorf("%v, %d live", err, d.Live())
		}
	})
}
