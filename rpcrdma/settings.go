package rpcrdma

import (
	"math"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/internal/setting"
)

// Ranges of settings. The smallest Send takes any RDMA_ERROR (28 octets), and the header of a message without chunks
// (28) with the call header of RPC (40).
const (
	minSend    = 68
	maxSend    = 1 << 20 // four times what PrivateData can say
	maxLists   = 1 << 20 // entries of a list
	maxOctets  = 1 << 30 // of one call: chunks takes no more
	maxCredits = math.MaxInt32
)

func (c *RequesterConfig) check() error {
	return setting.Check(append(limits(&c.Limits),
		setting.Int("Profile", int(c.Profile), int(RFC8166), int(RFC5666)),
		setting.Int("MaxRead", c.MaxRead, 1, maxOctets),
		setting.Count("Align", c.Align),
		setting.Count("AlignMin", c.AlignMin),
		setting.Int("Credits", int64(c.Credits), 1, maxCredits),
		setting.Int("SendSize", c.SendSize, minSend, maxSend),
		setting.Int("RecvSize", c.RecvSize, minSend, maxSend),
		setting.Count("ReduceMin", c.ReduceMin),
		setting.Count("SinkMin", c.SinkMin),
		setting.Count("GatherMin", c.GatherMin),
	)...)
}

func (c *ResponderConfig) check() error {
	return setting.Check(append(limits(&c.Limits),
		setting.Int("Profile", int(c.Profile), int(RFC8166), int(RFC5666)),
		setting.Count("MaxExposed", c.MaxExposed),
		setting.Count("MaxExposedOctets", c.MaxExposedOctets),
		setting.Count("ExposeMin", c.ExposeMin),
		setting.Count("Align", c.Align),
		setting.Count("AlignMin", c.AlignMin),
		setting.Int("Credits", int64(c.Credits), 1, maxCredits),
		setting.Int("SendSize", c.SendSize, minSend, maxSend),
		setting.Count("GatherMin", c.GatherMin),
	)...)
}

func limits(l *chunks.Limits) []setting.Setting {
	return []setting.Setting{
		setting.Int("Limits.MaxReadSegments", l.MaxReadSegments, 1, maxLists),
		setting.Int("Limits.MaxWriteChunks", l.MaxWriteChunks, 1, maxLists),
		setting.Int("Limits.MaxSegments", l.MaxSegments, 1, maxLists),
		setting.Int("Limits.MaxOctets", l.MaxOctets, 1, maxOctets),
	}
}
