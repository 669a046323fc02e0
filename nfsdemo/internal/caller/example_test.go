package caller_test

import (
	"errors"
	"fmt"

	"github.com/stag-rdma/stag/nfsdemo/internal/caller"
)

// A function runs as nobody, if this process may do that.
func ExampleSwitcher_Do() {
	sw, err := caller.New()
	if errors.Is(err, caller.ErrCannot) {
		fmt.Println("as nobody")
		return
	}
	err = sw.Do(&caller.Identity{UID: 65534, GID: 65534}, func() error {
		fmt.Println("as nobody")
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: as nobody
}

// A user writes to a file that the kernel has opened for him.
func ExampleSwitcher_DoUser() {
	sw, err := caller.New()
	if errors.Is(err, caller.ErrCannot) {
		fmt.Println("with his uid")
		return
	}
	err = sw.DoUser(&caller.Identity{UID: 65534, GID: 65534}, func() error {
		fmt.Println("with his uid")
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: with his uid
}

// A user writes where only quotas can stop him.
func ExampleSwitcher_Limited() {
	sw, err := caller.New()
	if errors.Is(err, caller.ErrCannot) {
		fmt.Println("within his quota")
		return
	}
	err = sw.Limited(&caller.Identity{UID: 65534, GID: 65534}, func() error {
		fmt.Println("within his quota")
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: within his quota
}

// The owner of a file is not stopped by its mode.
func ExampleSwitcher_Override() {
	sw, err := caller.New()
	if errors.Is(err, caller.ErrCannot) {
		fmt.Println("as its owner")
		return
	}
	err = sw.Override(&caller.Identity{UID: 1000, GID: 1000}, func() error {
		fmt.Println("as its owner")
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: as its owner
}

func ExampleNew() {
	_, err := caller.New()
	fmt.Println(err == nil || errors.Is(err, caller.ErrCannot))
	// Output: true
}

func ExampleIdentity_Equal() {
	ann := caller.Identity{UID: 1000, GID: 1000, Groups: []uint32{27}}
	bob := caller.Identity{UID: 1001, GID: 1000, Groups: []uint32{27}}
	fmt.Println(ann.Equal(&ann), ann.Equal(&bob))
	// Output: true false
}
