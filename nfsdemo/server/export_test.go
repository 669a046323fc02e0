package server

// What the tests need of the inside.

var (
	Fit         = fit
	May         = may
	MountStatus = mountStatus
	StatusOf    = statusOf
)
