package measure

import "time"

// Usage is what a process has used.
type Usage struct {
	CPU      time.Duration // processor time, the kernel's part included
	Switches uint64        // context switches, voluntary or not
}

// Since returns what was used after earlier.
func (u Usage) Since(earlier Usage) Usage {
	return Usage{CPU: u.CPU - earlier.CPU, Switches: u.Switches - earlier.Switches}
}
