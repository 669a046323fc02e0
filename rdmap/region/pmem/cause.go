package pmem

import (
	"errors"
	"fmt"
	"io/fs"
)

// cause strips the path, which Error has already.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// sizeError says how a size differs.
type sizeError struct{ got, want int64 }

func (e *sizeError) Error() string { return fmt.Sprintf("%d octets, want %d", e.got, e.want) }
