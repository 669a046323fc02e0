package xdrreflect

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// options are those of one field.
type options struct {
	optional, numbers, union, hasArm, item bool
	arm                                    int32
}

// parseTag reads the options of a field. inUnion says that a discriminant
// stands before it. Only one option per field besides ddp: with more, go-xdr reads
// an option's value wrongly, or reads and writes different things.
func parseTag(f reflect.StructField, inUnion bool) (o options, err error) {
	tag := f.Tag.Get("xdr")
	if f.Tag.Get("xdropaque") == "false" {
		tag = strings.TrimPrefix(tag+",opaque=false", ",")
	}
	if rest, found := strings.CutSuffix(","+tag, ",ddp"); found {
		o.item, tag = true, strings.TrimPrefix(rest, ",")
	}
	kind := f.Type.Kind()
	key, val, _ := strings.Cut(tag, "=")
	ok := false
	switch {
	case tag == "":
		ok = true
	case tag == "optional":
		o.optional, ok = true, kind == reflect.Pointer
	case tag == "opaque=false":
		o.numbers, ok = true, isOctets(f.Type)
	case tag == "union":
		o.union, ok = true, isDiscriminant(kind)
	case key == "unioncase" && inUnion:
		n, err := strconv.ParseInt(val, 10, 32)
		o.hasArm, o.arm = true, int32(n)
		ok = err == nil && strconv.FormatInt(n, 10) == val
	}
	if o.item && (kind != reflect.Slice || f.Type.Elem() != reflect.TypeFor[byte]() || o.numbers) {
		ok = false
	}
	if !ok {
		err = fmt.Errorf("field %s: tag %q on a %v: %w", f.Name, f.Tag.Get("xdr"), f.Type, ErrType)
	}
	return o, err
}

// isOctets tells whether t is a slice or array of 8-bit numbers.
func isOctets(t reflect.Type) bool {
	return (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) && t.Elem().Kind() == reflect.Uint8
}

// isDiscriminant tells whether a union may be told apart by a value of kind k.
func isDiscriminant(k reflect.Kind) bool {
	switch k {
	case reflect.Bool, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int,
		reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint:
		return true
	default:
		return false
	}
}
