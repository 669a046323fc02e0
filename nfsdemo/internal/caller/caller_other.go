//go:build !linux

package caller

// Switcher switches threads to other identities. Here there is none.
type Switcher struct{}

// New returns ErrCannot.
func New() (*Switcher, error) { return nil, ErrCannot }

// Do is not called, because there is no Switcher.
func (*Switcher) Do(*Identity, func() error) error { return ErrCannot }

// DoUser is not called, because there is no Switcher.
func (*Switcher) DoUser(*Identity, func() error) error { return ErrCannot }

// Limited is not called, because there is no Switcher.
func (*Switcher) Limited(*Identity, func() error) error { return ErrCannot }

// Override is not called, because there is no Switcher.
func (*Switcher) Override(*Identity, func() error) error { return ErrCannot }
