//go:build !unix

package push_test

import (
	"errors"
	"os"
)

func stop(*os.Process) error   { return errors.ErrUnsupported }
func resume(*os.Process) error { return nil }
