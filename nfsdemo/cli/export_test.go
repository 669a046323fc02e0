package cli

import "time"

// What the tests need of the inside.

type (
	ReadyJSON = readyJSON
)

const (
	LeastProcs = leastProcs
)

var (
	CgroupMemory  = cgroupMemory
	CgroupWarning = cgroupWarning
	Duration      = duration
	ListTime      = listTime
	ModeString    = modeString
	MountLine     = mountLine
	Octets        = octets
	Reachable     = reachable
	SpareProcs    = spareProcs
	WritePortFile = writePortFile
)

// SameTime is sameTime of two files, each with a time and that of its clock.
func SameTime(a, b [2]time.Time) bool { return sameTime(stamp{a[0], a[1]}, stamp{b[0], b[1]}) }
