//go:build !linux

package measure

import "errors"

// ProcessUsage returns errors.ErrUnsupported here.
func ProcessUsage(int) (Usage, error) { return Usage{}, errors.ErrUnsupported }
