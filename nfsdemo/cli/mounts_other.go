//go:build !linux

package cli

import "context"

// mountChanges hears of none here: a change shows within standEvery.
func mountChanges(context.Context, func()) {}

// diskMounts knows of none here: crossmnt reaches nothing.
func diskMounts() []string { return nil }
