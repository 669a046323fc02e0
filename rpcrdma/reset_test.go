package rpcrdma_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"unsafe"

	"github.com/stag-rdma/stag/rpcrdma"
)

// fill sets every field below v that can hold something, but for those named.
func fill(v reflect.Value, but ...string) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Field(i)
			if !slices.Contains(but, v.Type().Field(i).Name) {
				fill(reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem())
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Interface:
		v.Set(reflect.ValueOf(errors.New("left behind")))
	default:
		if v.CanInt() {
			v.SetInt(1)
		} else {
			v.SetUint(1)
		}
	}
}

// left returns the path of something that is neither zero nor an empty slice.
func left(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Field(i)
			if at := left(reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem()); at != "" {
				return v.Type().Field(i).Name + "." + at
			}
		}
	case reflect.Slice:
		if v.Len() > 0 {
			return "[]"
		}
	default:
		if !v.IsZero() {
			return v.Type().String()
		}
	}
	return ""
}

// TestReset: nothing of a call is left for the next one that uses its memory, whether it
// had chunks or not.
func TestReset(t *testing.T) {
	chunked := []string{"Memory", "lists", "Layout", "Inline", "Plan", "out", "placed"}
	for name, tt := range map[string]struct {
		v     interface{ Reset() }
		clean func(v any) // what a legal value cannot hold
		but   []string
	}{
		"call":              {v: new(rpcrdma.Call)},
		"call, short":       {v: new(rpcrdma.Call), but: chunked, clean: func(v any) { v.(*rpcrdma.Call).Result.Read = false }},
		"call, reply read":  {v: new(rpcrdma.Call), but: []string{"Plan"}},
		"inbound":           {v: new(rpcrdma.Inbound)},
		"reply":             {v: new(rpcrdma.Reply)},
		"call, only a sink": {v: new(rpcrdma.Call), clean: func(v any) { v.(*rpcrdma.Call).Plan = rpcrdma.Plan{Sink: true}; v.(*rpcrdma.Call).Result.Read = false }},
	} {
		v := reflect.ValueOf(tt.v).Elem()
		fill(v, tt.but...)
		if tt.clean != nil {
			tt.clean(tt.v)
		}
		if tt.v.Reset(); left(v) != "" {
			t.Errorf("%s: %s is left", name, left(v))
		}
	}
}
