// Package setting checks settings in the same way everywhere: zero means the default, and what is out of range
// is an error that names the setting, its value and its range.
package setting

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"time"
)

// ErrRange is wrapped by the errors for settings out of range.
var ErrRange = errors.New("setting out of range")

// Setting is a setting that can be out of range.
type Setting struct {
	name               string
	value, least, most int64
	time               bool
}

// Int is a number from least to most; a most of math.MaxInt64 is no bound. 0 is the default and is in range.
func Int[T int | int64 | uint64](name string, value, least, most T) Setting {
	return Setting{name: name, value: int64(value), least: int64(least), most: int64(most)}
}

// Count is a number that must not be negative.
func Count[T int | int64](name string, value T) Setting {
	return Setting{name: name, value: int64(value), most: math.MaxInt64}
}

// Time is a time that must not be negative.
func Time(name string, value time.Duration) Setting {
	return Setting{name: name, value: int64(value), most: math.MaxInt64, time: true}
}

// Check returns an error for the first setting that is out of range, nil if there is none.
func Check(all ...Setting) error {
	for _, s := range all {
		if s.value == 0 || s.value >= s.least && s.value <= s.most {
			continue
		}
		if s.time {
			return Error("%s is %v, want more than 0, or 0 for the default", s.name, time.Duration(s.value))
		}
		if s.most == math.MaxInt64 && s.least > 0 {
			return Error("%s is %d, want %d or more, or 0 for the default", s.name, s.value, s.least)
		}
		if s.most == math.MaxInt64 {
			return Error("%s is %d, want more than 0, or 0 for the default", s.name, s.value)
		}
		return Error("%s is %d, want %d to %d, or 0 for the default", s.name, s.value, s.least, s.most)
	}
	return nil
}

// IsNil reports whether v is nothing that can be used: nil, or a nil pointer in an interface.
func IsNil(v any) bool {
	r := reflect.ValueOf(v)
	return v == nil || r.Kind() == reflect.Pointer && r.IsNil()
}

// Error returns an error for settings that contradict each other. It wraps ErrRange.
func Error(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrRange, fmt.Sprintf(format, args...))
}
