package pmem

import (
	"errors"
	"fmt"
	"io/fs"
)

// cause strips the path from err, since Error has it already.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// sizeError reports a size, octets, that is not the expected one.
type sizeError struct{ got, want int64 }

func (e *sizeError) Error() string { return fmt.Sprintf("%d octets, want %d", e.got, e.want) }
